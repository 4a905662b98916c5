// H3T (Wang et al., NeurIPS 2023): seven memory switches for every layer, for one microbatch a step over replicas. The
// plan's shape is given; what is searched is the switches, by the exact solver or one of the paper's.

#include "papers/h3t/h3t_evaluator.hpp"

#include <algorithm>
#include <optional>

#include "papers/h3t/free_synchronization.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "papers/h3t/published_solvers.hpp"
#include "papers/h3t/step_inputs.hpp"
#include "papers/h3t_cost_model.hpp"
#include "search/texts.hpp"
#include "solvers/h3t/exact_solver.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr double kMsPerTick = 1e-6;

double ms(Ticks ticks) {
  return static_cast<double>(ticks) * kMsPerTick;
}

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
    return run_.consider_plan(score, [&] { return plan_of(solution); });
  }
  [[nodiscard]] Plan plan_of(const Solution& solution) const {
    return h3t::plan_of(run_.model(), devices_, inputs_.operators, solution.switches);
  }

  void note(const std::string& what, double before, const Solution& solution, const Problem& problem) {
    SearchStep step;
    step.evaluations = run_.evaluator().evaluations();
    step.stages = 1;
    step.bottleneck = "stage 0 memory";
    step.primitive = what;
    step.before_ms = before;
    step.after_ms = ms(solution.outcome.runtime);
    step.after_excess_bytes = static_cast<double>(std::max<Bytes>(0, solution.outcome.peak - problem.device_limit));
    run_.step(std::move(step));
  }

  StrategyEnd solve(const Problem& problem) {
    if (run_.options().h3t.solver == "exact") return solve_exactly(problem);
    const std::string& name = run_.options().h3t.solver;
    const std::optional<Solution> solution = name == "program" ? solve_by_published_program(problem, 128, stop())
                                             : name == "greedy"
                                                 ? solve_greedily(problem, stop())
                                                 : solve_by_sampling(problem, run_.options().seed, 1000, stop());
    if (!solution) {
      return {"exhausted", false, 0,
              "the " + name + " solver found no switches that fit; --h3t-solver exact finds some where there are any"};
    }
    // The other solvers are shown alone: nothing of the exact one stays.
    run_.shortlist() = Shortlist(run_.options().plans, run_.options().excluded, run_.options().distinct);
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

}  // namespace

StrategyEnd H3tEvaluator::search(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return H3tSearch(run, cost_model_).search();
}

}  // namespace trimtab::tuner::h3t
