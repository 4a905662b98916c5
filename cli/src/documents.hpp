#pragma once

// Documents named on the command line, read and checked. Every failure is bad input that names the file.

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
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

// A cost database that a verb reads. When the verb is done with it, `remarks` hears of rows that could not be read.
class ReadCosts {
 public:
  ReadCosts(CostDatabase database, std::ostream& remarks) : database_(std::move(database)), remarks_(&remarks) {}
  ReadCosts(ReadCosts&& other) noexcept
      : database_(std::move(other.database_)), remarks_(std::exchange(other.remarks_, nullptr)) {}
  ReadCosts& operator=(ReadCosts&&) = delete;
  ~ReadCosts();
  [[nodiscard]] const CostDatabase& operator*() const { return database_; }
  [[nodiscard]] const CostDatabase* operator->() const { return &database_; }
  // Rows, and parts of tables, that could not be read by now.
  [[nodiscard]] std::uint64_t unread();

 private:
  CostDatabase database_;
  std::ostream* remarks_;
};
// Opens for reading. A file that is not there is bad input, as for any other document.
[[nodiscard]] Result<ReadCosts> open_costs(const std::string& path, std::ostream& remarks);
// Opens for writing; makes it, or upgrades it and says to `remarks` where the copy of the older one is, and whether
// something of it could not be read.
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
// Reads the costs of the chosen fingerprint. `job` names the job whose trials' calibration to use; empty = none.
[[nodiscard]] Result<Costs> read_costs(const CostDatabase& database, const std::string& fingerprint,
                                       const Cluster* cluster, const std::string& job);
// The same of a database that is opened for that alone.
[[nodiscard]] Result<Costs> read_costs(const std::string& path, const std::string& fingerprint, const Cluster* cluster,
                                       const std::string& job, std::ostream& remarks);

// "pipeline,recompute": those and no others; "" = all.
[[nodiscard]] Result<Knobs> parse_knobs(std::string_view text);

}  // namespace trimtab::cli
