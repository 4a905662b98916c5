#pragma once

// `trimtab db import`: published profiles into a cost database and documents.

#include <string>

#include "verb.hpp"

namespace trimtab::cli {

struct ImportArguments {
  std::string format;
  std::string directory;
  std::string database;   // made when missing; untouched when a file is malformed
  std::string documents;  // where to write models and clusters; empty = nowhere
  bool json = false;
};

[[nodiscard]] Result<int> import_published(const ImportArguments& arguments, Console& console);

}  // namespace trimtab::cli
