#include "silence_watch.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>

namespace trimtab::net {

TransportProgress transport_progress(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool told = ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                    size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
  int waiting = 0;
  if (!told || ::ioctl(socket, SIOCOUTQ, &waiting) != 0) return {};
  return {info.tcpi_bytes_acked, info.tcpi_bytes_received, static_cast<std::uint64_t>(waiting)};
}

}  // namespace trimtab::net
