#include "local_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/descriptor.hpp"

namespace trimtab::cli {

bool port_free(std::uint16_t port) {
  const Descriptor descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::uint16_t free_port_from(std::uint16_t first) {
  constexpr int kTried = 100;
  for (int i = 0; i < kTried; ++i) {
    const auto port = static_cast<std::uint16_t>(first + i);
    if (port_free(port)) return port;
  }
  return first;
}

}  // namespace trimtab::cli
