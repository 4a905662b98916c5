#pragma once

// Linux' table of TCP sockets (/proc/net/tcp and tcp6), as text. Pure.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trimtab::net {

// IPv4 as IPv6 with ::ffff: in front, so that both families' rows compare.
struct SocketEnd {
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;
  bool operator==(const SocketEnd&) const = default;
};

// The user who holds the socket with these ends. Nothing where there is none in the table, or nobody holds it: the
// kernel shows root as the user of a connection that its listener has not accepted yet, and of one that is closed.
[[nodiscard]] std::optional<uid_t> socket_user(std::string_view table, const SocketEnd& local, const SocketEnd& remote);

}  // namespace trimtab::net
