#pragma once

// What a server's name says: postgresql://[USER@]HOST[:PORT]/DATABASE[?PARAMETER=VALUE...], libpq's own form. Whoever
// can read a command line or a log could read a password in it, so that is refused.

#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

struct PostgresName {
  std::string text;                                             // as given
  std::vector<std::pair<std::string, std::string>> parameters;  // for libpq, with our defaults
};

// Refused: what libpq cannot read, a password, and an unencrypted connection to another machine. Reads libpq's
// environment variables (PGHOST, PGSSLMODE, ...).
[[nodiscard]] Result<PostgresName> parse_postgres_name(const std::string& name);

// "localhost", a loopback address, or a Unix socket ("" and what begins with / or @): nobody else listens there.
[[nodiscard]] bool is_local_host(std::string_view host);

}  // namespace trimtab
