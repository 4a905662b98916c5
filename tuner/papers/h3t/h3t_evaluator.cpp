// H3T (Wang et al., NeurIPS 2023): seven memory switches for every layer, for one microbatch a step over replicas. The
// plan's shape is given; what is searched is the switches, by the exact solver or one of the paper's.

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "papers/answers/answers.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "papers/h3t/published_solvers.hpp"
#include "papers/h3t/step_inputs.hpp"
#include "papers/h3t_cost_model.hpp"
#include "search/strategy.hpp"
#include "solvers/h3t/exact_solver.hpp"
#include "solvers/h3t/segment_simulator.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {
namespace h3t {
namespace {

constexpr std::size_t kLabels = 30'000;  // of one price among many; the search goes further

class H3tSearch {
 public:
  H3tSearch(SearchRun& run, const H3tCostModel& cost_model)
      : run_(run), cost_model_(cost_model), devices_(run.space().devices) {}

  StrategyEnd search() {
    const std::optional<Candidate> shape = this->shape();
    if (!shape) return {"exhausted", false, 0, shape_text()};
    inputs_ = cost_model_.inputs(devices_);
    if (!inputs_.missing.empty()) return {"exhausted", false, 0, missing_text()};
    run_.consider(*shape);  // counts, and says what is too large where nothing fits
    return solve(cost_model_.problem(inputs_, devices_));
  }

 private:
  // One stage of replicas over all devices, if the space has it.
  [[nodiscard]] std::optional<Candidate> shape() const {
    const PlanSpace& space = run_.space();
    const std::int32_t batch = run_.model().global_batch;
    Split replicas;
    replicas.dp = devices_;
    const bool allowed =
        std::find(space.microbatches.begin(), space.microbatches.end(), batch) != space.microbatches.end();
    if (!allowed || space.stages_min > 1 || !space.allows_devices(0, devices_) ||
        !space.allows(run_.model(), batch, devices_, replicas))
      return std::nullopt;
    Candidate candidate;
    candidate.microbatch = batch;
    candidate.stages.push_back(replicated_stage(space.operators, devices_));
    return candidate;
  }

  [[nodiscard]] std::string shape_text() const {
    return "needs one stage of " + std::to_string(devices_) + " replicas and one microbatch of " +
           std::to_string(run_.model().global_batch) +
           " samples a step, which the space does not have: the model's microbatch_values must allow it, the job "
           "honour "
           "microbatch and data_parallel, and the batch be a multiple of the devices";
  }

  [[nodiscard]] std::function<bool()> stop() {
    return [this] { return run_.stopped(); };
  }

  [[nodiscard]] std::string missing_text() const {
    return std::to_string(inputs_.missing.size()) + " costs are missing: " + first_names(inputs_.missing);
  }

  bool consider(const Solution& solution) {
    Score score;
    score.priced = true;
    score.ms = ms(solution.outcome.runtime);
    return run_.consider_plan(score,
                              [&] { return plan_of(run_.model(), devices_, inputs_.operators, solution.switches); });
  }

  void note(const std::string& what, double before, const Solution& solution, const Problem& problem) {
    const Bytes excess = std::max<Bytes>(0, solution.outcome.peak - problem.device_limit);
    run_.step(step_of(run_, 1, "stage 0 memory", what, {true, 0, before},
                      {true, static_cast<double>(excess), ms(solution.outcome.runtime)}));
  }

  StrategyEnd solve(const Problem& problem) {
    const std::string& name = run_.options().h3t.solver;
    if (name == "exact") return solve_exactly(problem);
    const std::optional<Solution> solution = name == "program" ? solve_by_published_program(problem, 128, stop())
                                             : name == "greedy"
                                                 ? solve_greedily(problem, stop())
                                                 : solve_by_sampling(problem, run_.options().seed, 1000, stop());
    if (!solution) {
      return {"exhausted", false, 0,
              "the " + name + " solver found no switches that fit; --h3t-solver exact finds some where there are any"};
    }
    // The other solvers are shown alone: nothing of the exact one stays.
    run_.shortlist() = Shortlist(run_.options());
    note(name + " solver", ms(solution->outcome.runtime), *solution, problem);
    consider(*solution);
    return {"exhausted", false, 0, ""};
  }

  StrategyEnd solve_exactly(const Problem& problem) {
    ExactOptions options;
    options.stop = stop();
    const ExactAnswer answer = h3t::solve_exactly(problem, options);
    if (!answer.feasible) return {"exhausted", false, 0, ""};
    const std::optional<Solution> uniform = best_uniform(problem);
    if (uniform) note("the same switches in every layer", ms(uniform->outcome.runtime), *uniform, problem);
    double before = uniform ? ms(uniform->outcome.runtime) : ms(answer.best.outcome.runtime);
    for (const ExactPass& pass : answer.passes) {
      Solution at;
      at.outcome = {pass.best, answer.best.outcome.peak, 0};
      note(pass_text(pass), before, at, problem);
      before = ms(pass.best);
    }
    if (uniform) consider(*uniform);
    const bool taken = consider(answer.best);
    StrategyEnd end{answer.proven ? "converged" : "too_large", answer.proven && taken, ms(answer.bound), ""};
    if (run_.options().h3t.free_synchronization) free(problem, answer, end);
    return end;
  }

  [[nodiscard]] static std::string pass_text(const ExactPass& pass) {
    const auto best = static_cast<double>(pass.best);
    const std::string gap = percent_text(best > 0 ? static_cast<double>(pass.best - pass.bound) / best : 0);
    if (pass.width == 0) return "relaxed memory limits; within " + gap + " of the bound";
    return std::to_string(pass.labels) + " labels, at most " + std::to_string(pass.width) + " a boundary; within " +
           gap + " of the bound";
  }

  // The bound holds for synchronized steps alone.
  void free(const Problem& problem, const ExactAnswer& answer, StrategyEnd& end) {
    const Solution free = freed(problem, answer.best, stop());
    note("layers that do not synchronize", ms(answer.best.outcome.runtime), free, problem);
    consider(free);
    end = {"converged", false, 0, ""};
  }

  SearchRun& run_;
  const H3tCostModel& cost_model_;
  std::int32_t devices_;
  StepInputs inputs_;
};

// A candidate says nothing of memory switches: where its recompute follows from memory they are what the exact solver
// finds with a bounded number of labels; where recompute is spelled out, every other switch is off. One per search; not
// thread-safe.
class H3tEvaluator final : public Evaluator, public OwnSearch {
 public:
  H3tEvaluator(const H3tCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), cost_model_(cost_model) {}

  Score price(const Candidate& candidate) override {
    count();
    if (!priced(candidate)) return {};
    const StagePrice& price = stage(candidate, 0);
    Score score;
    score.priced = price.priced;
    score.excess_bytes = price.excess_bytes;
    if (score.priced) score.ms = price.step_ms;
    return score;
  }

  const StagePrice& stage(const Candidate& candidate, std::size_t /*stage*/) override {
    price_ = {};
    if (!priced(candidate)) return price_;
    const Prediction prediction = cost_model_.evaluate(plan(candidate));
    const std::int32_t devices = candidate.stages.front().devices;
    const Bytes limit = cost_model_.problem(solved(devices).inputs, devices).device_limit;
    price_ = papers::stage_price(prediction.stages.front());
    price_.priced = prediction.missing_costs.empty();
    price_.step_ms = prediction.iteration_ms;
    price_.limit_bytes = limit == kUnlimited ? 0 : static_cast<double>(limit);
    const Bytes over = prediction.stages.front().memory_bytes - limit;
    // No memory of a device makes up for the host's.
    if (!prediction.feasible) {
      price_.excess_bytes = over > 0 ? static_cast<double>(over) : std::numeric_limits<double>::infinity();
    }
    return price_;
  }

  Plan plan(const Candidate& candidate) override {
    if (!priced(candidate)) {
      return tuner::plan_of(candidate, model(), std::vector<std::vector<Range>>(candidate.stages.size()));
    }
    const CandidateStage& stage = candidate.stages.front();
    const Solved& of = solved(stage.devices);
    if (!stage.recompute) return plan_of(model(), stage.devices, of.inputs.operators, of.answer.best.switches);
    Plan plan = plan_of(model(), stage.devices, of.inputs.operators, Switching(of.inputs.layers.size()));
    plan.stages.front().segments.front().recompute = *stage.recompute;
    return plan;
  }

  std::string excess_text(const Candidate& candidate) override {
    return priced(candidate) ? cost_model_.evaluate(plan(candidate)).infeasible_reason : "";
  }

  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override {
    const std::int32_t samples = microbatch / split.dp;
    std::vector<double>& sums = sums_[samples];
    if (sums.empty()) {
      sums = papers::computing_sums(cost_model_.table().tables().at(samples), model().global_batch / microbatch);
    }
    return sums;
  }

  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "h3t"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& /*start*/) override {
    return H3tSearch(run, cost_model_).search();
  }

 private:
  struct Solved {
    StepInputs inputs;
    ExactAnswer answer;
  };

  // One stage of replicas with the whole batch at once: all that the model prices.
  [[nodiscard]] bool priced(const Candidate& candidate) const {
    if (candidate.stages.size() != 1 || candidate.microbatch != model().global_batch) return false;
    const CandidateStage& stage = candidate.stages.front();
    const std::vector<CandidateSegment> segments = segments_of(stage);
    return segments.size() == 1 && stage.alternate.empty() && segments.front().split.tp == 1 &&
           model().global_batch % segments.front().split.dp == 0;
  }

  const Solved& solved(std::int32_t devices) {
    const auto found = solved_.find(devices);
    if (found != solved_.end()) return found->second;
    Solved solved{cost_model_.inputs(devices), {}};
    ExactOptions options;
    options.most_labels = kLabels;
    solved.answer = h3t::solve_exactly(cost_model_.problem(solved.inputs, devices), options);
    return solved_.emplace(devices, std::move(solved)).first->second;
  }

  const H3tCostModel& cost_model_;
  std::map<std::int32_t, Solved> solved_;  // by devices
  std::map<std::int32_t, std::vector<double>> sums_;
  StagePrice price_;
};

}  // namespace
}  // namespace h3t

std::unique_ptr<Evaluator> H3tCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<h3t::H3tEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
