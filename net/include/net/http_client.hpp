#pragma once

// One blocking HTTP request, for the command line. Not for daemons: it blocks the calling thread, up to `timeout`.

#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::net {

struct HttpReply {
  int status = 0;
  std::string body;
};

// The error of a refused connection says that nothing listens there and how to start it. Statuses of 400 and more are
// replies, not errors.
[[nodiscard]] Result<HttpReply> http_request(const std::string& host, std::uint16_t port, const std::string& method,
                                             const std::string& target, const std::string& body, Nanoseconds timeout);

}  // namespace trimtab::net
