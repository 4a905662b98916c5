#include "probes/probe_socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace trimtab::agent {

namespace {

// A cancelled probe is noticed within this.
constexpr Nanoseconds kLook = std::chrono::milliseconds(20);

Error system_error(const std::string& action) {
  return unavailable(action + ": " + std::strerror(errno));
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> numeric(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return bad_input("a probe needs a numeric address of this node's network, but found '" + address + "'");
  }
  return Addresses(found, &::freeaddrinfo);
}

int open_for(const addrinfo& address) {
  return ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

std::uint16_t port_of(int descriptor) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  const bool six = bound.ss_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// `which` is getsockname or getpeername.
std::string address_of(int descriptor, int (*which)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage found{};
  socklen_t length = sizeof found;
  auto* const address = reinterpret_cast<sockaddr*>(&found);
  std::array<char, NI_MAXHOST> text{};
  const bool known = which(descriptor, address, &length) == 0 &&
                     ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "";
}

// Small messages must not wait for each other: a round trip is timed.
void send_at_once(int descriptor) {
  const int on = 1;
  (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

std::string ProbeSocket::local_address() const {
  return address_of(descriptor_.get(), &::getsockname);
}

std::string ProbeSocket::peer_address() const {
  return address_of(descriptor_.get(), &::getpeername);
}

Result<ProbeSocket> ProbeSocket::listen(const std::string& address) {
  TRIMTAB_TRY(const Addresses found, numeric(address, 0));
  ProbeSocket socket(open_for(*found));
  if (!socket.descriptor_) return system_error("couldn't make a socket for a probe");
  if (::bind(socket.descriptor_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.descriptor_.get(), 4) != 0) {
    return system_error("couldn't listen for a probe at " + address);
  }
  socket.port_ = port_of(socket.descriptor_.get());
  return socket;
}

Result<ProbeSocket> ProbeSocket::connect(const std::string& address, std::uint16_t port, const ProbeWait& wait) {
  TRIMTAB_TRY(const Addresses found, numeric(address, port));
  const std::string what = "connecting to " + address + " port " + std::to_string(port);
  ProbeSocket socket(open_for(*found));
  if (!socket.descriptor_) return system_error("couldn't make a socket for a probe");
  send_at_once(socket.descriptor_.get());
  if (::connect(socket.descriptor_.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return system_error(what);
  }
  TRIMTAB_TRY_STATUS(socket.ready(POLLOUT, what, wait));
  socklen_t length = sizeof errno;
  int failure = 0;
  (void)::getsockopt(socket.descriptor_.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  if (failure == 0) return socket;
  errno = failure;
  return system_error(what);
}

Result<ProbeSocket> ProbeSocket::accept(const ProbeWait& wait) const {
  while (true) {
    TRIMTAB_TRY_STATUS(ready(POLLIN, "waiting for the other side", wait));
    ProbeSocket peer(::accept4(descriptor_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (peer.descriptor_) {
      send_at_once(peer.descriptor_.get());
      return peer;
    }
    const bool gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!gone) return system_error("couldn't take a probe's connection");
  }
}

Status ProbeSocket::ready(short events, const std::string& what, const ProbeWait& wait) const {
  while (true) {
    TRIMTAB_TRY_STATUS(wait.check(what));
    pollfd watched{descriptor_.get(), events, 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(wait.left(kLook));
    const int count = ::poll(&watched, 1, static_cast<int>(patience.count()) + 1);
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return system_error(what);
  }
}

Status ProbeSocket::send(std::span<const std::byte> bytes, const ProbeWait& wait) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("sending to the other side of a probe");
    TRIMTAB_TRY_STATUS(ready(POLLOUT, "sending", wait));
  }
  return {};
}

Status ProbeSocket::receive(std::span<std::byte> bytes, const ProbeWait& wait) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(descriptor_.get(), bytes.data(), bytes.size(), 0);
    if (got == 0) return unavailable("the other side of a probe closed the connection");
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("receiving from the other side of a probe");
    TRIMTAB_TRY_STATUS(ready(POLLIN, "receiving", wait));
  }
  return {};
}

}  // namespace trimtab::agent
