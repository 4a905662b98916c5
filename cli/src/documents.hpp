#pragma once

// Documents named on the command line, read and checked. Every failure is bad input that names the file.

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "schema/fingerprint.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::cli {

[[nodiscard]] Result<Model> read_model(const std::string& path);
[[nodiscard]] Result<Cluster> read_cluster(const std::string& path);
[[nodiscard]] Result<Plan> read_plan(const std::string& path);

// Opens for reading. A file that is not there is bad input, as for any other document.
[[nodiscard]] Result<CostDatabase> open_costs(const std::string& path);
// Opens for writing; makes it, or upgrades it and says to `remarks` where the copy of the older one is.
[[nodiscard]] Result<CostDatabase> open_costs_to_write(const std::string& name, std::ostream& remarks);

// Which fingerprint's costs to use. `wanted` is a hash or the beginning of one. Without it, the only one of the
// database, or the only one that the cluster's nodes name; else the error lists what there is.
[[nodiscard]] Result<std::string> choose_fingerprint(const std::vector<std::string>& known, const std::string& wanted,
                                                     const Cluster* cluster, const std::string& path);

struct Costs {
  std::string fingerprint;
  std::vector<Cost> costs;
  tuner::Calibration calibration;
};
// Opens read-only and reads the costs of the chosen fingerprint. `job` names the job whose trials' calibration to use;
// empty = none.
[[nodiscard]] Result<Costs> read_costs(const std::string& path, const std::string& fingerprint, const Cluster* cluster,
                                       const std::string& job);

// "pipeline,recompute": those and no others; "" = all.
[[nodiscard]] Result<Knobs> parse_knobs(std::string_view text);

}  // namespace trimtab::cli
