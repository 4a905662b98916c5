#pragma once

// Whose log lies beside a database file. SQLite reads a log into whatever file stands there, also into a copy that was
// put in the place of the log's own file. The first page has a counter, and says with its tables' number which file of
// several it is. Each log of ours begins with a first page that counts one more than the file's own, so a file belongs
// to a log only if it counts as the log's pages do, or one less.

#include <SQLiteCpp/Database.h>

#include <string>

#include "base/result.hpp"

namespace trimtab {

struct LogCheck {
  std::string lost;             // what of it was confirmed and will not be read; empty: all will be
  bool is_of_the_past = false;  // what can be read of it would take the place of newer pages in the file
};

// Refuses a file beside the log of another one. Changes nothing. A log without a first page tells nothing, nor does one
// of a file that somebody has open.
[[nodiscard]] Result<LogCheck> check_log(const std::string& path);

// Begins a log with its mark, where OpenContent::begins_log(), or ends one. Where that cannot be written there is none.
void mark_log(SQLite::Database& connection);

}  // namespace trimtab
