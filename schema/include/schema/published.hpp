#pragma once

// Profiles that others have published or that their profilers wrote, and other programs' measurements, read into costs
// and documents. A format is one author's files, as that author's programs write them; nothing in them is altered, and
// nothing in them is run. Reading is all or nothing: the first file, line and column that is not as expected is the
// error. Reads files; no clocks, no threads, no database.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/model.hpp"

namespace trimtab {

// The costs of one profile run. Runs that measured the same key differently have different fingerprints, so they never
// merge; the fingerprint's environment says who published them, where, and a digest of the costs.
struct PublishedCosts {
  Fingerprint fingerprint;
  std::string source;       // "import:REPOSITORY@COMMIT"; "import:aceso" of a profile that the authors did not publish
  std::string origin;       // of the one batch (number 1) that these costs are: the same for the same costs
  std::vector<Cost> costs;  // of the source kind "estimated": what the author's rules make of what was measured
  std::string what = {};    // for people: what it is, where the fingerprint does not name the profile
  // False: what the fingerprint lacks, the files do not say. So it contradicts no machine that says it.
  bool tells_all = true;
};

struct PublishedModel {
  std::string file;  // "gpt-1_3B.json"
  Model model;
};

struct PublishedCluster {
  std::string file;  // "gpt-1_3B.cluster.json"
  Cluster cluster;   // its nodes name the fingerprint of the costs that belong to it
};

struct Published {
  std::vector<PublishedCosts> costs;
  std::vector<PublishedModel> models;
  std::vector<PublishedCluster> clusters;
  std::vector<std::string> remarks;  // what was published in part only
};

// What a model or a cluster document needs and the files of a profile do not say. All of it may be left out: 0 and
// empty are "not said". What the files say and what the authors published of their own models need no word here.
struct ProfileSupplement {
  std::vector<std::int32_t> layers;  // how often each kind of layer repeats
  std::int64_t hidden = 0;           // elements of a token
  std::int64_t sequence = 0;         // tokens of a sample
  std::int32_t global_batch = 0;     // samples
  std::int32_t nodes = 0;            // 0 = one
  std::int32_t devices_per_node = 0;
  Bytes device_memory = 0;
  [[nodiscard]] bool empty() const;
};

// "aceso" and "galvatron" (directories that the authors' profilers wrote), "oases" (a directory), "nccl-tests" (files
// that nccl-tests wrote with -J), "nccl-inspector" (files of NCCL's Inspector plugin, or a folder of them), "traces"
// (PyTorch Profiler's and Nsight Systems', files or a folder).
[[nodiscard]] const std::vector<std::string_view>& published_formats();

// The error names FILE:LINE (or FILE: JSON path), what was expected and what was found. An unknown format is refused by
// listing those that are known. Where a document lacks what only `supplement` could say, a remark asks for it.
[[nodiscard]] Result<Published> read_published(std::string_view format, const std::vector<std::string>& paths,
                                               const ProfileSupplement& supplement = {});

}  // namespace trimtab
