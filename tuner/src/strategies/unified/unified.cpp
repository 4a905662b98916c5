// The product's own strategy. First its own means: cuts and devices by an exact dynamic program over the cost model's
// best stages (solver_search.hpp) where a step follows from its stages, and else beside even plans and those that the
// bound comes from. Then every paper's planner, each as if it were alone with its part of the budget. Then a proof, or
// a climb from the best of all of them, with what is left.

#include <algorithm>
#include <cmath>
#include <span>

#include "pricing/bounds.hpp"
#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"
#include "strategies/strategy_table.hpp"
#include "strategies/unified/climb.hpp"
#include "strategies/unified/planners.hpp"
#include "strategies/unified/progress.hpp"
#include "strategies/unified/seeds.hpp"
#include "strategies/unified/solver_search.hpp"
#include "strategies/unified/stage_descent.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kOperators = 10;  // of a small space
constexpr std::int32_t kDevices = 8;

class Count {
 public:
  Count(const Model& model, const PlanSpace& space) : model_(model), space_(space) {}

  // Ways for the operators from `op` on, on the devices from `device` on.
  double ways(std::int32_t microbatch) {
    const std::int32_t operators = space_.operators;
    const std::int32_t devices = space_.devices;
    std::vector<std::vector<double>> rest(operators + 1, std::vector<double>(devices + 1, 0.0));
    rest[operators][devices] = 1;
    for (std::int32_t op = operators - 1; op >= 0; --op) {
      for (std::int32_t device = devices - 1; device >= 0; --device) {
        for (std::int32_t count = 1; device + count <= devices; ++count) {
          if (!space_.allows_devices(device, count)) continue;
          for (std::int32_t end = op + 1; end <= operators; ++end) {
            if (rest[end][device + count] == 0) continue;
            rest[op][device] += layouts(microbatch, {op, end}, count) * rest[end][device + count];
          }
        }
      }
    }
    return rest[0][0];
  }

 private:
  [[nodiscard]] double layouts(std::int32_t microbatch, const Range& inside, std::int32_t count) const {
    const auto splits = static_cast<double>(space_.splits(model_, microbatch, count).size());
    double ways = space_.mixed_splits ? std::pow(splits, inside.size()) : splits;
    for (std::int32_t op = inside.begin; op < inside.end && space_.alternate_dimensions && count > 1; ++op) {
      if (model_.operators[op].shardings.size() > 1) ways *= 2;
    }
    return ways;
  }

  const Model& model_;
  const PlanSpace& space_;
};

// Whether all plans of a space can be priced: counts the ways to cut the model, to give out the devices and to split
// the operators, over all microbatches; sets of recomputed operators come on top, for models of few operators.
bool is_small(const Model& model, const PlanSpace& space, double most) {
  if (most <= 0 || space.operators > kOperators || space.devices > kDevices) return false;
  double ways = 0;
  for (const std::int32_t microbatch : space.microbatches) {
    const bool halves = microbatch % 2 == 0;
    ways += Count(model, space).ways(microbatch) * (halves ? static_cast<double>(space.sub_batches.size()) : 1.0);
  }
  return ways <= most;
}

using unified::Asked;
using unified::Planner;
using unified::Share;

constexpr int kRelatives = 2000;    // that a climb prices where a step is simulated
constexpr int kFewRelatives = 300;  // of a very long model
constexpr int kOperatorRelatives = 20000;
constexpr double kFloorEffort = 0.5;
constexpr std::int32_t kShortModel = 2000;  // operators up to which plans near the bound are looked for
constexpr double kSolvedFirst = 0.5;        // of what is left; stages of very long models take more than there is
constexpr double kMet = 1 - 1e-9;

class Unified {
 public:
  explicit Unified(SearchRun& run) : run_(run), progress_(run), solver_(run, progress_), descent_(run) {}

  StrategyEnd search(const std::optional<Candidate>& start) {
    if (start) progress_.traced("the plan to start from", [&] { run_.consider(*start); });
    const OwnSearch* const own = run_.evaluator().own_search();
    const Planner* const paper = own != nullptr ? &unified::planner_named(own->strategy()) : nullptr;
    const bool again = paper != nullptr && ask(*paper, start, Share::kPart);
    if (!met()) search_after(paper, start);
    if (!met() && again) ask(*paper, start, Share::kRest);
    // Where nothing fits, the even plan that is least over its memory says why.
    if (run_.shortlist().empty()) unified::price_even_plans(run_);
    return end();
  }

 private:
  // Under a paper's arithmetic its planner has been asked: it may set knobs that a Candidate cannot, and its proof is
  // one.
  void search_after(const Planner* paper, const std::optional<Candidate>& start) {
    // The solver's plans are the best of theirs: it gets what planners leave that refuse, so those are asked before.
    const bool first = !solver_.estimates() && run_.has_shares();
    const auto planners = unified::planners();
    const std::size_t before = first ? unified::kRefusing : 0;
    ask_planners(planners.first(before), paper, start);
    if (met()) return;
    const auto after = static_cast<double>(planners.size() - before);
    run_.limit(first ? 1 - after / unified::kParts : run_.spent() + unified::kOwnShare);
    search_alone();
    run_.limit(1);
    if (met()) return;
    ask_planners(planners.subspan(before), paper, start);
    if (!met()) finish();
  }

  void search_alone() {
    if (solver_.estimates()) {
      search_estimated();
    } else if (solver_.exact()) {
      solver_.find_near_best();
      prove();
    } else {
      solver_.find_near_best_of_some();
      climb({kOperatorRelatives, true});
      enumerate();
    }
  }

  // The solver only estimates: every plan where there are few, else its plans beside those of other ways to search.
  void search_estimated() {
    progress_.traced("even stages", [&] { unified::price_even_plans(run_); });
    enumerate();
    if (met()) return;
    take_floored();
    if (met()) return;
    climb({kRelatives, false});
    solver_.explore();
  }

  // From the best of all.
  void finish() {
    if (solver_.estimates()) {
      climb({solver_.is_very_long() ? kFewRelatives : kRelatives, true});
      if (cut_short_) enumerate();
      if (!met()) solve_stages(kSolvedFirst);
      if (!met() && run_.has_shares() && progress_.best()) go_on_from_best();
      if (!met()) solve_stages(1);
    } else if (solver_.exact()) {
      solver_.find_near_best();
      prove();
    } else {
      solver_.find_near_best_of_some();
      climb({kOperatorRelatives, true});
      solver_.prove();
      climb({kOperatorRelatives, true});
      solver_.bound();
    }
  }

  // Stage by stage, as long as a climb from there finds something better in turn, for a part of what is left.
  void solve_stages(double part) {
    const double spent = run_.spent();
    run_.limit(spent + part * (1 - spent));
    bool better = run_.options().unified.stage_program;
    while (better && !met() && !run_.stopped()) {
      progress_.traced("stages solved operator by operator", [&] { better = descent_.descend(); });
      if (better) climb({kRelatives, true});
    }
    run_.limit(1);
  }

  // Aceso's moves from there, while the budget lasts.
  void go_on_from_best() {
    ask(unified::planner_named("aceso"), progress_.best(), Share::kRest);
    climb({kRelatives, true});
  }

  void prove() {
    if (!solver_.is_very_long()) solver_.prove();
  }

  // Without a budget to share the planners search to their own ends, which very long models and large clusters have not
  // near.
  void ask_planners(std::span<const Planner> planners, const Planner* asked, const std::optional<Candidate>& start) {
    const bool moderate = run_.space().devices <= unified::kMostDevices && !solver_.is_very_long();
    if (!run_.has_shares() && !moderate) return;
    for (const Planner& planner : planners) {
      if (&planner == asked || run_.cancelled()) continue;
      if (planner.most_devices > 0 && run_.space().devices > planner.most_devices) continue;
      ask(planner, start, Share::kPart);
      if (met()) return;
    }
  }

  // Whether it was cut short.
  bool ask(const Planner& planner, const std::optional<Candidate>& start, Share share) {
    const double before = progress_.best_ms();
    Asked asked = unified::ask(run_, planner, start, share);
    floor_ms_ = std::max(floor_ms_, asked.end.lower_bound_ms);
    proven_ = proven_ || asked.end.proven;
    if (progress_.best_ms() < before) {
      for (SearchStep& step : asked.trace) run_.step(std::move(step));
      progress_.record("the planner " + std::string(planner.strategy.name), before);
    }
    return asked.cut_short;
  }

  // Prices every plan where there are few.
  void enumerate() {
    if (!is_small(run_.model(), run_.space(), run_.options().unified.enumerated_ways)) return;
    if (with_switches()) return;  // of which there are too many
    progress_.traced("every plan", [&] { all_priced_ = run_exhaustive(run_, std::nullopt).proven; });
    cut_short_ = !all_priced_;
  }

  // Whether memory switches can be priced for one stage, however it is split.
  [[nodiscard]] bool with_switches() {
    const PlanSpace& space = run_.space();
    SwitchChooser* const chooser = run_.evaluator().switch_chooser();
    if (chooser == nullptr || !space.memory_switches) return false;
    Candidate whole;
    for (const std::int32_t microbatch : space.microbatches) {
      whole.microbatch = microbatch;
      for (std::int32_t devices = 1; devices <= space.devices; ++devices) {
        whole.stages = {replicated_stage(space.operators, devices)};
        for (const Split& split : space.splits(run_.model(), microbatch, devices)) {
          whole.stages[0].split = split;
          if (chooser->with_switches(whole, 0)) return true;
        }
      }
    }
    return false;
  }

  // The plans that the evaluator's bound comes from; their stages are seldom even.
  void take_floored() {
    Bounds* const bounds = run_.evaluator().bounds();
    if (bounds == nullptr || !run_.space().knobs.uneven_stages) return;
    const double effort = run_.space().operators <= kShortModel ? kFloorEffort : 0;
    progress_.traced("the least floor", [&] {
      const PlansNearBound near = bounds->plans_near_bound({progress_.best_ms(), run_.options().idle_devices, effort});
      floor_ms_ = std::max(floor_ms_, near.bound_ms);
      for (const Candidate& candidate : near.plans) {
        if (run_.stopped()) return;
        run_.consider(candidate);
      }
    });
  }

  void climb(const unified::ClimbOptions& options) {
    progress_.traced("a climb over near relatives", [&] { unified::climb(run_, options); });
  }

  // No plan of the space takes less; 0 where nothing says so.
  [[nodiscard]] double floor_ms() {
    if (run_.shortlist().empty()) return 0;
    const double best = progress_.best_ms();
    if (all_priced_ || proven_) return run_.options().excluded.empty() ? best : 0;
    return std::min(best, std::max(floor_ms_, solver_.empty() ? 0 : solver_.floor()));
  }

  // Nothing is left to find.
  [[nodiscard]] bool met() {
    return run_.options().excluded.empty() && !run_.shortlist().empty() && floor_ms() >= progress_.best_ms() * kMet;
  }

  [[nodiscard]] StrategyEnd end() {
    StrategyEnd end;
    end.lower_bound_ms = floor_ms();
    end.proven = met();
    const bool too_large = solver_.cut_short() || (solver_.exact() && solver_.is_very_long());
    end.stopped = end.proven ? "exhausted" : too_large ? "too_large" : "converged";
    return end;
  }

  SearchRun& run_;
  unified::Progress progress_;
  unified::SolverSearch solver_;
  unified::StageDescent descent_;
  double floor_ms_ = 0;
  bool all_priced_ = false;
  bool cut_short_ = false;  // before every plan was priced
  bool proven_ = false;     // by a planner
};

}  // namespace

StrategyEnd run_unified(SearchRun& run, const std::optional<Candidate>& start) {
  return Unified(run).search(start);
}

}  // namespace trimtab::tuner
