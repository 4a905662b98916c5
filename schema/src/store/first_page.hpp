#pragma once

// A copy of a database file's first page, and of those with the tables' texts that it refers to. They say what the file
// is and where its tables are: without them nothing of it can be read. They change only where tables are made.

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

namespace trimtab {

// Keeps it beside the file, as PATH.first-page, in place of whatever else is there: a link is replaced, not followed.
// Where that cannot be written there is none. Reads through the connection: a process that closes a file otherwise
// gives up its locks on it.
void keep_first_page(SQLite::Database& connection, const std::string& path);

// Whether a whole copy is there, of a file of this kind.
[[nodiscard]] bool has_first_page(const std::string& path, std::uint32_t application_id);
void remove_first_page(const std::string& path);

// Puts the copy in the place of pages that differ from it in a few bits, as a disk flips them: another file's differ
// in many. Those that a cut file lacks are there again. True where it did. REQUIRES: the file could not be opened, and
// this process has it not open.
[[nodiscard]] bool mend_first_page(const std::string& path);

// What a file without a log lacks of its end that its first page says it has; empty: nothing. Looks at none that this
// process has open.
[[nodiscard]] std::string what_is_cut(const std::string& path);

}  // namespace trimtab
