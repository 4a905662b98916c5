#pragma once

// `trimtab db import`: published profiles and other programs' measurements into a cost database and documents.

#include "schema/published.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

// The options for what a profile's files do not say, as typed; empty = not given.
struct SupplementTexts {
  std::string layers;            // "32"; "24,24" of two kinds
  std::string hidden;            // "4096"
  std::string sequence;          // "2048"
  std::string global_batch;      // "64"
  std::string nodes;             // "2"
  std::string devices_per_node;  // "8"
  std::string device_memory;     // GiB: "40", "27.5"
};

// The error names the option, what was expected and what was found. Pure.
[[nodiscard]] Result<ProfileSupplement> parse_supplement(const SupplementTexts& texts);

// What differs of two fingerprints that could be one machine's: "NCCL 2.28.9, but 2.27.3"; empty when nothing does. A
// key that only one of them has is no difference, but for the GPU, a known NCCL and NCCL's variables. `tells_all`: as
// in PublishedCosts; false, and what only the target has is no difference at all. Pure.
[[nodiscard]] std::string disagreement(const Fingerprint& measured, const Fingerprint& target, bool tells_all = true);

struct ImportArguments {
  std::string format;
  // Directories or files, and last the database: made when missing, untouched when a file is malformed.
  std::vector<std::string> paths;
  std::string documents;    // where to write models and clusters; empty = nowhere
  std::string fingerprint;  // of the database: store under it what was measured on the same hardware; empty = its own
  SupplementTexts supplement;
};

[[nodiscard]] Result<int> import_published(const ImportArguments& arguments, bool as_json, Console& console);

}  // namespace trimtab::cli
