#pragma once

// The checksum of a row: of the values of its checked columns, in their order, each with its type and length. Stored
// beside them in the column `checksum` by whoever writes the row, and verified by whoever reads it, so that a bit that
// a disk or a memory has flipped is never taken for a measurement. Not against an adversary.

#include <SQLiteCpp/Database.h>

#include "schema/database.hpp"

namespace trimtab {

// The SQL function row_checksum(VALUE, ...) on this connection, the same as row_checksum().
void add_row_checksum(SQLite::Database& connection);

}  // namespace trimtab
