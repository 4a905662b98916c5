#pragma once

// A copy of one kind's tables, in a schema of its own, before they are upgraded: a database of the former version, with
// its keys, triggers and counters, that the release before opens as it is.

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "postgres_session.hpp"
#include "schema/database.hpp"

namespace trimtab {

// What is copied: the tables that the first `version` steps make in the schema `schema` (its oid).
struct PostgresCopied {
  const Migrations& migrations;
  std::int64_t version = 0;
  std::int64_t schema = 0;
};

// Returns the copy's schema, quoted where SQL needs that: SCHEMA_backup_vVERSION, numbered where there is one already;
// none is replaced. Refused where the role may not make schemas. REQUIRES: inside the upgrade's transaction, whose end
// decides on the copy, too. Leaves the transaction's search_path as it was.
[[nodiscard]] Result<std::string> back_up_tables(PostgresSession& session, const PostgresCopied& copied);

}  // namespace trimtab
