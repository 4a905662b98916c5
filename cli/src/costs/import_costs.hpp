#pragma once

// `trimtab db import`: published profiles and other programs' measurements into a cost database and documents.

#include <string>
#include <vector>

#include "schema/published.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

struct ImportArguments {
  std::string format;
  std::vector<std::string> paths;  // directories, or files
  std::string database;            // made when missing; untouched when a file is malformed
  std::string documents;           // where to write models and clusters; empty = nowhere
  std::string fingerprint;  // of the database: store under it what was measured on the same hardware; empty = its own
  bool json = false;
  ProfileSupplement supplement;  // what the files do not say
};

[[nodiscard]] Result<int> import_published(const ImportArguments& arguments, Console& console);

}  // namespace trimtab::cli
