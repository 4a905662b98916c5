#pragma once

// Our statements number their arguments as SQLite does, "?" in order or "?1"; PostgreSQL's are "$1".

#include <string>
#include <string_view>

namespace trimtab {

// What stands in quotes is left alone. REQUIRES: one way of numbering in a statement, no comments.
[[nodiscard]] std::string with_dollars(std::string_view sql);

}  // namespace trimtab
