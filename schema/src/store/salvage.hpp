#pragma once

// A database file whose pages or rows cannot be read: finding it out, and bringing what can be read into another.
// Throws SQLite::Exception where the other one cannot be written.

#include <SQLiteCpp/Database.h>

#include "schema/database.hpp"

namespace trimtab {

// What is wrong with the file, in a few words; empty: every page fits the others, and every row its checksum.
// `thorough`: indexes are compared with their tables, too, which whoever writes relies on.
[[nodiscard]] std::string find_damage(SQLite::Database& connection, const Migrations& migrations, bool thorough);

// Makes the tables of the newest version in `to`, which is empty, and brings every row there that can be read. Rows
// that cannot are noted in its table set_apart, as is the damage itself. REQUIRES: `from` is of that version.
void salvage(SQLite::Database& from, SQLite::Database& to, const Migrations& migrations, const std::string& damage);

// Notes damage of which nothing is left to be brought elsewhere, and what that asks for. REQUIRES: a transaction is
// open.
void note_damage(SQLite::Database& connection, const Migrations& migrations, const std::string& damage);

// Sets apart the rows that CheckedTable::check refuses. REQUIRES: a transaction is open, or nobody else reads it.
void set_apart_unreadable(SQLite::Database& connection, const Migrations& migrations);

// How many rows, and parts of tables, stand in set_apart.
[[nodiscard]] std::uint64_t count_set_apart(SQLite::Database& connection);

}  // namespace trimtab
