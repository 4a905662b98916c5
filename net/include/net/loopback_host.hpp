#pragma once

// Whether a host, as a person writes it, can only be this machine: "localhost", "::1", "127.x.y.z". Pure.

#include <string_view>

namespace trimtab::net {

[[nodiscard]] constexpr bool is_loopback_host(std::string_view host) {
  // Not "127.example.com".
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (address && host.starts_with("127."));
}

}  // namespace trimtab::net
