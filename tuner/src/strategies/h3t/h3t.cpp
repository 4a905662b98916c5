// H3T's switches over the shapes of a space: pipelines of one, two, four... even stages of replicas, for every
// microbatch size, each stage with the switches that the cost model's own chooser finds best for it.

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "plan/switch_plan.hpp"
#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"
#include "strategies/candidates.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace h3t {
namespace {

class SwitchSearch {
 public:
  SwitchSearch(SearchRun& run, SwitchChooser& chooser) : run_(run), chooser_(chooser) {}

  // What of it is missing where nothing with switches could be priced.
  [[nodiscard]] std::string refusal() const {
    if (priced_ || missing_.empty()) return "";
    return std::to_string(missing_.size()) + " costs are missing for memory switches: " + first_names(missing_);
  }

  void run() {
    const PlanSpace& space = run_.space();
    TRIMTAB_ASSERT(space.stages_min >= 1, "a pipeline has a stage");
    for (const std::int32_t microbatch : space.microbatches) {
      for (std::int32_t stages = space.stages_min; stages <= space.stages_max; stages *= 2) {
        if (run_.stopped()) return;
        if (std::optional<Candidate> shape = this->shape(microbatch, stages)) consider(*shape);
      }
    }
  }

 private:
  // Stages of replicas on all devices, nothing where the space or the layers do not have them.
  [[nodiscard]] std::optional<Candidate> shape(std::int32_t microbatch, std::int32_t stages) const {
    const PlanSpace& space = run_.space();
    const auto cuts = static_cast<std::int32_t>(space.cuts.size());
    if (stages > cuts + 1) return std::nullopt;
    const std::vector<std::int32_t> ends = even_ends(run_, stages);
    const std::vector<std::int32_t> devices = space.even_split(run_.model(), microbatch, stages);
    const auto between = [this](std::int32_t cut) { return between_layers(run_.model(), cut); };
    if (devices.empty() || !std::all_of(ends.begin(), ends.end() - 1, between)) return std::nullopt;
    Candidate candidate;
    candidate.microbatch = microbatch;
    std::int32_t first_device = 0;
    for (std::size_t s = 0; s < ends.size(); ++s) {
      candidate.stages.push_back(replicated_stage(ends[s], devices[s]));
      const bool allowed = space.allows_devices(first_device, devices[s]) &&
                           space.allows(run_.model(), microbatch, devices[s], candidate.stages.back().split);
      if (!allowed) return std::nullopt;
      first_device += devices[s];
    }
    return candidate;
  }

  void consider(Candidate& candidate) {
    const Score without = run_.consider(candidate);
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      std::optional<CandidateStage> switched = chooser_.with_switches(candidate, s);
      if (!switched) return name_missing(candidate);
      candidate.stages[s] = *std::move(switched);
    }
    const Score with = run_.consider(candidate);
    priced_ = priced_ || with.priced;
    note(candidate, without, with);
  }

  void name_missing(Candidate candidate) {
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      CandidateStage& stage = candidate.stages[s];
      const std::vector<Range> layers = layers_inside(run_.model(), {candidate.begin_of(s), stage.end});
      const Switching all_on(layers.size(), run_.space().switches);
      stage.split = switchable(stage.split);
      stage.switches = plan_switches(layers, all_on);
      stage.recompute = rematerialized(layers, all_on);
    }
    const Prediction prediction = run_.evaluator().cost_model().evaluate(run_.evaluator().plan(candidate));
    const std::vector<std::string>& names = prediction.missing_costs;
    if (names.empty() || (!missing_.empty() && missing_.size() <= names.size())) return;
    missing_ = {names.begin(), names.end()};
  }

  void note(const Candidate& candidate, const Score& without, const Score& with) {
    if (!with.priced) return;
    Score before = without;
    if (!before.priced) before.ms = with.ms;
    run_.step(step_of(run_, candidate.stages.size(), "memory",
                      "memory switches, microbatches of " + std::to_string(candidate.microbatch), before, with));
  }

  SearchRun& run_;
  SwitchChooser& chooser_;
  bool priced_ = false;
  std::set<std::string> missing_;  // of the shape that lacks the fewest
};

constexpr const char* kAdvice = "; use --cost-model h3t:nvlink or h3t:pcie";

StrategyEnd refuse(const std::string& why) {
  return {"exhausted", false, 0, why + kAdvice};
}

}  // namespace
}  // namespace h3t

std::vector<std::string_view> h3t_solvers() {
  return {"exact", "program", "greedy", "random"};
}

StrategyEnd run_h3t(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  SwitchChooser* const chooser = run.evaluator().switch_chooser();
  if (chooser == nullptr) {
    const std::string name(run.evaluator().cost_model().name());
    return h3t::refuse("the cost model '" + name + "' knows no copies to and from the host");
  }
  if (!run.space().memory_switches) {
    return h3t::refuse("the space '" + run.space().name + "' has no memory switches: use --space all");
  }
  if (run.options().h3t.solver != "exact" || run.options().h3t.free_synchronization) {
    return h3t::refuse("under native, switches are chosen by the exact solver with synchronized segments");
  }
  h3t::SwitchSearch search(run, *chooser);
  search.run();
  return {"converged", false, 0, search.refusal()};
}

}  // namespace trimtab::tuner
