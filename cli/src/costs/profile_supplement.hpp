#pragma once

// The options of `trimtab db import` for what a profile's files do not say. Pure.

#include <string>

#include "base/result.hpp"
#include "schema/published.hpp"

namespace trimtab::cli {

// As typed; empty = not given.
struct SupplementTexts {
  std::string layers;            // "32"; "24,24" of two kinds
  std::string hidden;            // "4096"
  std::string sequence;          // "2048"
  std::string global_batch;      // "64"
  std::string nodes;             // "2"
  std::string devices_per_node;  // "8"
  std::string device_memory;     // GiB: "40", "27.5"
};

// The error names the option, what was expected and what was found.
[[nodiscard]] Result<ProfileSupplement> parse_supplement(const SupplementTexts& texts);

}  // namespace trimtab::cli
