#pragma once

// What plans really take on the simulated cluster: the native model over costs that differ from those that the tuner
// has, by a factor for each class of costs and a little more for each single one, and that do not tell all of a plan:
// each way of running operators, and each plan, takes a little longer or less than its costs say. Not thread-safe.

#include <map>
#include <optional>
#include <utility>

#include "base/random.hpp"
#include "coordinator/simulation.hpp"
#include "tuner/cost_model.hpp"
#include "tuning/document_text.hpp"
#include "tuning/hardware/changed_hardware.hpp"

namespace trimtab::coordinator {

struct TruePrice {
  double ms = 0;
  bool fits = true;
  std::vector<double> peak_bytes;  // by device
  std::vector<double> pass_ms;     // by device: of a step, in its operators' passes
  std::vector<StepTerms> terms;    // by device: where a step goes
  double state_bytes = 0;          // of the device that holds most
};

// A plan that the tuning machine has, which is one.
[[nodiscard]] const Plan& tuned_plan(const PlanText& plan);

class GroundTruth {
 public:
  [[nodiscard]] static Result<GroundTruth> make(const Model& model, const Cluster& cluster,
                                                const std::vector<Cost>& costs, const TruthSettings& settings,
                                                std::uint64_t seed);

  // References valid until the next change of the cluster. `hash`: semantic_hash(plan).
  [[nodiscard]] const TruePrice& price(const Plan& plan) { return price(plan, semantic_hash(plan)); }
  [[nodiscard]] const TruePrice& price(const Plan& plan, const std::string& hash);
  [[nodiscard]] const TrueFactors& factors() const { return factors_; }
  // As the cluster is now, its slow devices included, as a search sees them: what the best plan is looked for with. Its
  // prices are those of the true costs alone, without what they do not tell of a plan.
  [[nodiscard]] const tuner::CostModel& cost_model() const { return slowed_ ? *slowed_ : *current_; }

  // All links of the level, or those of two nodes alone; what was set last counts.
  [[nodiscard]] Status set_link(const std::string& level, const LinkChange& change);
  [[nodiscard]] Status set_link(const NodePair& pair, const LinkChange& change);
  [[nodiscard]] Status set_device(std::int32_t device, double share);
  // As it is now: 1 = as fast as the costs say. `device` of the job's, or by node, of which it need not be one.
  [[nodiscard]] double device_share(std::int32_t device) const;
  [[nodiscard]] double device_share(const std::string& node, std::int32_t device_of_node) const;
  // All devices of a node are others, of this speed. Counts from the next set_nodes().
  void set_hardware(const std::string& node, std::int32_t devices, double share);
  // The job's nodes, whose devices are numbered anew; a node's devices keep their speed. REQUIRES: not empty.
  [[nodiscard]] Status set_nodes(const std::vector<Node>& nodes);

 private:
  using Device = std::pair<std::string, std::int32_t>;  // a node's name, and which of its devices

  GroundTruth() = default;
  [[nodiscard]] Device subject_of(std::int32_t device) const;
  [[nodiscard]] Status rebuild();
  [[nodiscard]] TruePrice evaluate(const Plan& plan, const std::string& hash) const;
  [[nodiscard]] double scatter_of(const Plan& plan, const std::string& hash) const;
  [[nodiscard]] Prediction throttled(const Plan& plan, const Prediction& healthy) const;

  Model model_;
  Cluster cluster_;
  std::vector<Cost> costs_;          // of the healthy cluster
  std::vector<Cost> current_costs_;  // as links are now
  TrueFactors factors_;
  double step_overhead_ms_ = 0;
  double way_scatter_ = 0;
  double plan_scatter_ = 0;
  std::uint64_t scatter_seed_ = 0;
  LinkChanges link_changes_;
  std::map<Device, double> device_share_;
  std::optional<tuner::NativeCostModel> current_;  // with every device as fast as ever
  std::optional<tuner::NativeCostModel> slowed_;   // none: they are
  std::map<std::string, TruePrice> prices_;
};

}  // namespace trimtab::coordinator
