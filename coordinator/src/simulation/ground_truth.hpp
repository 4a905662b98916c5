#pragma once

// What plans really take on the simulated cluster: the native model over costs that differ from those that the tuner
// has, by a factor for each class of costs and a little more for each single one. Not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "coordinator/simulation.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tuner/cost_model.hpp"
#include "tuning/changed_hardware.hpp"

namespace trimtab::coordinator {

struct TrueFactors {
  double computation = 1;
  double communication = 1;
  double overlap = 1;
  double memory = 1;
};

struct TruePrice {
  double ms = 0;
  bool fits = true;
  std::vector<double> peak_bytes;  // by device
  std::vector<double> pass_ms;     // by device: of a step, in its operators' passes
  double state_bytes = 0;          // of the device that holds most
};

class GroundTruth {
 public:
  [[nodiscard]] static Result<GroundTruth> make(const Model& model, const Cluster& cluster,
                                                const std::vector<Cost>& costs, const TruthSettings& settings,
                                                std::uint64_t seed);

  // References valid until the next change of the cluster. `hash`: semantic_hash(plan).
  [[nodiscard]] const TruePrice& price(const Plan& plan) { return price(plan, semantic_hash(plan)); }
  [[nodiscard]] const TruePrice& price(const Plan& plan, const std::string& hash);
  [[nodiscard]] const TrueFactors& factors() const { return factors_; }
  // As the cluster is now, its slow devices included, as a search sees them: what the best plan is looked for with.
  [[nodiscard]] const tuner::CostModel& cost_model() const { return slowed_ ? *slowed_ : *current_; }

  // All links of the level, or those of two nodes alone; what was set last counts.
  [[nodiscard]] Status set_link(const std::string& level, const LinkChange& change);
  [[nodiscard]] Status set_link(const NodePair& pair, const LinkChange& change);
  [[nodiscard]] Status set_device(std::int32_t device, double share);
  // As it is now: 1 = as fast as ever.
  [[nodiscard]] double device_share(std::int32_t device) const;
  // They are gone for good; devices are numbered anew. REQUIRES: some are left.
  [[nodiscard]] Status remove_nodes(const std::set<std::string>& nodes);

 private:
  GroundTruth() = default;
  [[nodiscard]] Status rebuild();
  [[nodiscard]] TruePrice evaluate(const Plan& plan) const;
  [[nodiscard]] double throttled_ms(const Plan& plan, double healthy_ms) const;

  Model model_;
  Cluster cluster_;
  std::vector<Cost> costs_;          // of the healthy cluster
  std::vector<Cost> current_costs_;  // as links are now
  TrueFactors factors_;
  double step_overhead_ms_ = 0;
  LinkChanges link_changes_;
  std::map<std::int32_t, double> device_share_;
  std::optional<tuner::NativeCostModel> current_;  // with every device as fast as ever
  std::optional<tuner::NativeCostModel> slowed_;   // none: they are
  std::map<std::string, TruePrice> prices_;
};

}  // namespace trimtab::coordinator
