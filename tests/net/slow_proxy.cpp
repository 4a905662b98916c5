#include "slow_proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

namespace trimtab::net {

namespace {

constexpr int kPeriodMs = 10;
constexpr std::size_t kBytesPerPeriod = 8 * 1024;
constexpr int kReceiveBuffer = 16 * 1024;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr* generic(sockaddr_in& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

// False when one side has closed.
bool pass_on(int from, int to, std::size_t most) {
  std::array<char, kBytesPerPeriod> bytes;
  const ssize_t got = ::recv(from, bytes.data(), std::min(most, bytes.size()), MSG_DONTWAIT);
  return got < 0 || (got > 0 && ::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got);
}

}  // namespace

SlowProxy::SlowProxy(std::uint16_t upstream_port) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  ::setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  REQUIRE(::bind(listener_, generic(address), size) == 0);
  REQUIRE(::listen(listener_, 8) == 0);
  REQUIRE(::getsockname(listener_, generic(address), &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, upstream_port] { run(upstream_port); });
}

SlowProxy::~SlowProxy() {
  over_ = true;
  thread_.join();
  ::close(listener_);
}

void SlowProxy::run(std::uint16_t upstream_port) {
  pollfd waiting{listener_, POLLIN, 0};
  while (!over_ && ::poll(&waiting, 1, kPeriodMs) <= 0) continue;
  if (over_) return;
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  const int upstream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(upstream_port);
  bool open = ::connect(upstream, generic(address), sizeof address) == 0;
  while (!over_ && open) {
    ::poll(nullptr, 0, kPeriodMs);
    if (!still_) open = pass_on(client, upstream, kBytesPerPeriod) && pass_on(upstream, client, kBytesPerPeriod);
  }
  ::close(client);
  ::close(upstream);
}

}  // namespace trimtab::net
