#pragma once

// PostgreSQL's failures in words that say what to do.

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

struct PostgresFailure {
  std::string state;    // SQLSTATE; empty where the server did not answer
  std::string message;  // the server's or libpq's
  bool lost = false;    // the connection is gone
  bool silent = false;  // because the server did not answer in time
};

// Whether the same transaction may succeed when it is run again: others were in the way, or the connection was lost.
[[nodiscard]] bool may_pass_again(const PostgresFailure& failure);

// What is needed where a connection did not come about, and what to do. libpq's words for the reason are all there is
// to tell by.
[[nodiscard]] std::string connection_advice(std::string_view reason);

// `subject`: kind and name of the database ("cost database postgresql://...").
[[nodiscard]] Error postgres_error(const PostgresFailure& failure, const std::string& subject);

}  // namespace trimtab
