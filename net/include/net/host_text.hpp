#pragma once

// A host as people, agents and URLs write it: a name or an IP address. Pure.

#include <cstdint>
#include <string>
#include <string_view>

namespace trimtab::net {

// 1 to 255 of A-Z, a-z, 0-9, '.', '-' and ':': it can stand in a URL, and in a command without harm.
[[nodiscard]] bool is_host_text(std::string_view text);

// With its port, as in Host and in URLs: "127.0.0.1:7420", "[::1]:7420".
[[nodiscard]] std::string authority(const std::string& host, std::uint16_t port);

// Whether it can only be this machine: "localhost", "::1", "127.x.y.z".
[[nodiscard]] constexpr bool is_loopback_host(std::string_view host) {
  // Not "127.example.com".
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (address && host.starts_with("127."));
}

}  // namespace trimtab::net
