#pragma once

// Pure decisions about a request's head. The caller is untrusted.

#include "net/server.hpp"

namespace trimtab::net {

// "/v1/costs?kind=a%20b&x" into path and query, percent-decoded. Nothing on a broken escape, an embedded NUL, a
// parameter that is named twice or a target that does not begin with '/'.
struct Target {
  std::string path;
  std::map<std::string, std::string> query;
};
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

// Why a request must not be served although it is well formed, or nothing. A web page that somebody looks at can make
// the browser send requests to a daemon on the same machine: such a request carries an Origin that is not the daemon's
// own, or, where a name was rebound to a loopback address, a foreign Host.
[[nodiscard]] std::optional<std::string> refusal(std::string_view host, std::string_view origin, bool on_loopback);

// The token of an "Authorization: Bearer TOKEN"; empty where there is none.
[[nodiscard]] std::string bearer_token(std::string_view authorization);

}  // namespace trimtab::net
