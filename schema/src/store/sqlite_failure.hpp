#pragma once

// SQLite's failures in words that say what to do.

#include <string>

#include "base/result.hpp"

namespace SQLite {
class Exception;
}

namespace trimtab {

// `what` is the kind of file for messages ("cost database"); `path` names it.
[[nodiscard]] Error sqlite_failure(const SQLite::Exception& failure, const std::string& what, const std::string& path);

}  // namespace trimtab
