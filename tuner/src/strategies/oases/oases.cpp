// Oases' planner (section V) by an exact program over the chain instead of an integer program: a tensor-parallel degree
// for each operator of one stage over all devices.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "pricing/stage_chain.hpp"
#include "search/strategy.hpp"
#include "solvers/label_setting.hpp"
#include "strategies/candidates.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

using oases::ChainAnswer;
using oases::ChainProblem;
using oases::LabelSetting;
using Choice = std::vector<std::int32_t>;  // index of a split, by operator

std::string runs_text(const std::vector<Split>& splits, const Choice& choice) {
  std::string text;
  for (std::size_t n = 0, run = 1; n < choice.size(); ++n, ++run) {
    if (n + 1 < choice.size() && choice[n + 1] == choice[n]) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(run) + " x tp " + std::to_string(splits[choice[n]].tp);
    run = 0;
  }
  return text;
}

StrategyEnd refuse(const std::string& why) {
  StrategyEnd end;
  end.refusal = why;
  return end;
}

class Planner {
 public:
  explicit Planner(SearchRun& run) : run_(run), space_(run.space()) {}

  StrategyEnd search() {
    if (space_.tensor_parallel.size() < 2) {
      return refuse("chooses a tensor-parallel degree for each operator, but the space '" + space_.name +
                    "' has tp 1 alone: use --space oases or --space all");
    }
    if (space_.stages_min > 1 || space_.stages_max < 1 || !space_.allows_devices(0, space_.devices)) {
      return refuse("plans one stage over all devices, which the space '" + space_.name +
                    "' does not have: use --space oases or --space all");
    }
    for (const std::int32_t microbatch : space_.microbatches) {
      if (run_.stopped()) break;
      microbatch_ = microbatch;
      StageChains* const own = run_.evaluator().stage_chains();
      chain_ = own != nullptr ? own->stage_chain(microbatch) : computing_chain(run_.evaluator(), microbatch);
      if (chain_.splits.empty()) continue;
      priced_ = true;
      if (chain_.exact) {
        plan_exactly();
      } else {
        plan_by_budgets();
      }
    }
    if (!priced_ && !run_.stopped()) {
      return refuse(
          "no split of one stage over all devices is measured for all operators: profile them, or use "
          "--space oases with the cost model oases:paper");
    }
    if (!exact_ || fewer_degrees()) return {"converged"};
    const bool bounded = std::isfinite(bound_) && !run_.stopped();
    return {proven_ ? "exhausted" : "too_large", proven_ && run_.options().excluded.empty(), bounded ? bound_ : 0};
  }

 private:
  // How many degrees, in the order of trying; 0 = any.
  [[nodiscard]] std::vector<std::int32_t> limits(std::int32_t most) const {
    if (!space_.mixed_splits || most == 1) return {1};
    if (most == 2) return {1, 2};
    return {1, 2, most};
  }

  // Whether plans of the space are left out that have more degrees: nothing is proven of those.
  [[nodiscard]] bool fewer_degrees() const { return space_.mixed_splits && run_.options().oases.degrees > 0; }

  // The last answer is the best plan of one stage with so few degrees.
  void plan_exactly() {
    ChainAnswer answer;
    for (const std::int32_t most : limits(run_.options().oases.degrees)) {
      if (run_.stopped()) return;
      answer = solve(most);
      take(answer, most);
    }
    if (!answer.found) return;
    proven_ = proven_ && answer.proven;
    bound_ = std::min(bound_, answer.proven ? answer.cost : answer.bound);
    take_neighbours(answer.choice);
  }

  // Where the chain is not exact: under budgets between the states of the fastest choice and the least that any has,
  // because how much room states may take depends on what is recomputed, which the evaluator chooses. Few runs of equal
  // degree: the chain does not know what a change of layout costs.
  void plan_by_budgets() {
    constexpr std::int32_t kRuns = 3;
    exact_ = false;
    const std::int32_t most = run_.options().oases.degrees;
    for (const std::int32_t degrees : limits(most == 0 ? kRuns : most)) sweep(degrees);
  }

  void sweep(std::int32_t most) {
    constexpr int kBudgets = 8;
    chain_.limit = std::numeric_limits<double>::infinity();
    const double largest = solve(most).memory;
    chain_.limit = 0;
    const double least = solve(most).memory;
    for (int i = 0; i < kBudgets && !run_.stopped(); ++i) {
      chain_.limit = i + 1 == kBudgets ? least : largest - (largest - least) * i / (kBudgets - 1);
      take(solve(most), most);
      if (largest <= least) return;
    }
  }

  ChainAnswer solve(std::int32_t most) {
    ChainProblem problem;
    problem.nodes = space_.operators;
    problem.options = static_cast<std::int32_t>(chain_.splits.size());
    problem.node = chain_.node;
    problem.edge = chain_.edge;
    problem.memory = chain_.memory;
    problem.buffer = chain_.buffer;
    problem.limit = chain_.limit;
    problem.most_options = std::min(most, problem.options);
    problem.stop = [this] { return run_.stopped(); };
    return solver_.solve(problem);
  }

  [[nodiscard]] Candidate candidate(const Choice& choice) const {
    Candidate candidate;
    candidate.microbatch = microbatch_;
    CandidateStage& stage = candidate.stages.emplace_back();
    stage.devices = space_.devices;
    stage.end = space_.operators;
    stage.split = chain_.splits[choice.front()];
    for (std::int32_t n = 0; n < stage.end; ++n) {
      if (n == 0 || choice[n] != choice[n - 1]) stage.segments.push_back({n, chain_.splits[choice[n]]});
      stage.segments.back().end = n + 1;
    }
    if (stage.segments.size() == 1) stage.segments.clear();
    return candidate;
  }

  void take(const ChainAnswer& answer, std::int32_t most) {
    const double before = run_.shortlist().best_ms();
    const Score score = run_.consider(candidate(answer.choice));
    if (!score.priced) return;
    const std::string which = most == 0 ? "any degrees" : "at most " + std::to_string(most) + " in a row";
    SearchStep step = timed_step(
        run_, 1, "",
        which + ", " + runs_text(chain_.splits, answer.choice) + " (" + std::to_string(answer.labels) + " labels)",
        before, score.ms);
    step.after_excess_bytes = score.excess_bytes;
    run_.step(std::move(step));
  }

  // Runners-up, and what is left where the best plan is excluded: one operator split in another way.
  void take_neighbours(Choice choice) {
    if (!space_.mixed_splits || run_.options().oases.degrees > 0) return;
    for (std::int32_t& at : choice) {
      const std::int32_t kept = at;
      for (at = 0; at < static_cast<std::int32_t>(chain_.splits.size()); ++at) {
        if (run_.stopped()) return;
        if (at != kept) run_.consider(candidate(choice));
      }
      at = kept;
    }
  }

  SearchRun& run_;
  const PlanSpace& space_;
  LabelSetting solver_;
  StageChain chain_;
  std::int32_t microbatch_ = 1;
  double bound_ = std::numeric_limits<double>::infinity();
  bool priced_ = false;
  bool exact_ = true;
  bool proven_ = true;
};

}  // namespace

StrategyEnd run_oases(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return Planner(run).search();
}

}  // namespace trimtab::tuner
