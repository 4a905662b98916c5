#pragma once

// How a database on a PostgreSQL server stands, for whoever checks a configuration: it is looked at as this role, and
// nothing there is made, upgraded, owned or changed. Blocking, for a few seconds where the server does not answer.

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

struct ServerInspection {
  std::string server;        // "PostgreSQL 15.4"
  std::string role;          // who was let in
  std::int64_t version = 0;  // of the tables that are there; 0 = none yet: who opens it for writing makes them
  std::int64_t known = 0;    // the version that this release makes, and the only one that it reads
  std::string owner;         // who holds it as its owner now, such as "a program on 10.0.0.2 (...)"; empty = nobody
  Status writable;           // else what keeps this role from opening it for writing, and what to do
};

// `exclusive`: of a kind that one program owns at a time. The error says, as Database::open()'s does, why it could not
// be looked at: a name that is refused, no server, no entry, no schema. Neither holds a password. REQUIRES:
// names_server(name).
[[nodiscard]] Result<ServerInspection> inspect_server(const std::string& name, const Migrations& migrations,
                                                      bool exclusive);
// Of a cost database.
[[nodiscard]] Result<ServerInspection> inspect_cost_server(const std::string& name);

}  // namespace trimtab
