// Cuts and devices by an exact dynamic program over the cost model's best stages (partition_solver.hpp), coarse cuts
// first: whole layers, then ever finer cuts around the best plans found, then every cut with a proof. One solver for
// each microbatch.

#include "unified.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "climb.hpp"
#include "cut_sets.hpp"
#include "orders.hpp"
#include "partition_solver.hpp"
#include "planners.hpp"
#include "seeds.hpp"
#include "small_space.hpp"
#include "strategies/bottleneck.hpp"
#include "strategies/strategy.hpp"

namespace trimtab::tuner {
namespace {

using unified::Partition;
using unified::PartitionSolver;
using unified::PartitionSpace;
using unified::StagePricer;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int32_t kMostDevices = 64;  // beyond, stages are uniform groups (seeds.hpp)
constexpr std::size_t kPool = 24;
constexpr std::size_t kRefined = 6;
constexpr std::size_t kMostCuts = 8000;    // beyond, a proof takes minutes and gains nothing that is worth them
constexpr std::uint64_t kPatience = 1000;  // estimates of stages of so long a model, since the last better plan
constexpr double kFar = 1.04;
constexpr double kFarOfSome = 1.1;  // where more ways to run a stage may still bring a plan nearer
constexpr double kCoarseTolerance = 5e-3;
constexpr double kFinerTolerance = 1e-3;
constexpr double kFineTolerance = 1e-4;
constexpr double kExactTolerance = 1e-12;
constexpr double kBoundTolerance = 1e-3;
constexpr double kVaried = 1.005;
constexpr int kRelatives = 2000;    // that a climb prices where a step is simulated
constexpr int kFewRelatives = 300;  // of a very long model
constexpr int kOperatorRelatives = 20000;
constexpr int kRefinements = 8;
constexpr std::int32_t kSettled = 6;  // operators that a cut may move by when a plan is settled
constexpr double kFloorEffort = 0.5;
constexpr std::int32_t kShortModel = 2000;  // operators up to which plans near the bound are looked for
constexpr double kEvenShare = 0.05;         // of an evaluation budget: even plans, and with them the solver's
constexpr double kSolverShare = 0.15;
constexpr std::uint64_t kPlannersBudget = 10000;
constexpr double kPlannerShare = 0.05;  // for each of the papers' planners

std::vector<std::int32_t> devices_of(const Partition& partition) {
  std::vector<std::int32_t> devices;
  for (const unified::PartitionStage& stage : partition.stages) devices.push_back(stage.devices);
  return devices;
}

// One microbatch size: its stages, its solver, and the best cuts that it has found for each sequence of devices.
struct Branch {
  std::int32_t microbatch = 1;
  PartitionSpace space;
  std::unique_ptr<StagePricer> pricer;
  std::unique_ptr<PartitionSolver> solver;
  std::vector<Partition> pool;                 // best first
  std::set<std::vector<std::int32_t>> varied;  // orders of devices that have been tried
  double floor = 0;                            // no plan with this microbatch takes less

  [[nodiscard]] double objective(const Partition& partition) const { return partition.objective(space.rounds); }
  [[nodiscard]] double best() const { return pool.empty() ? kInfinite : objective(pool[0]); }

  void keep(const Partition& partition) {
    std::erase_if(pool, [&](const Partition& other) {
      return devices_of(other) == devices_of(partition) && objective(other) >= objective(partition);
    });
    const auto same = [&](const Partition& other) { return devices_of(other) == devices_of(partition); };
    if (std::any_of(pool.begin(), pool.end(), same)) return;
    const auto place =
        std::upper_bound(pool.begin(), pool.end(), partition,
                         [this](const Partition& a, const Partition& b) { return objective(a) < objective(b); });
    pool.insert(place, partition);
    if (pool.size() > kPool) pool.pop_back();
  }
};

class Unified {
 public:
  explicit Unified(SearchRun& run) : run_(run), cuts_(run.model(), run.space()) {}

  StrategyEnd search(const std::optional<Candidate>& start) {
    if (start) traced("the plan to start from", [&] { run_.consider(*start); });
    open_branches();
    const bool estimated = branches_.empty() || branches_[0]->pricer->estimates();
    if (estimated) {
      search_estimated(start);
    } else {
      search_priced();
    }
    // Where nothing fits, the even plan that is least over its memory says why.
    if (run_.shortlist().empty()) unified::price_even_plans(run_);
    StrategyEnd end;
    end.lower_bound_ms = lower_bound();
    end.proven = !run_.stopped() && run_.options().excluded.empty() && !run_.shortlist().empty() &&
                 end.lower_bound_ms >= run_.shortlist().best_ms() * (1 - 1e-9);
    end.stopped = end.proven ? "exhausted" : cut_short_ ? "too_large" : "converged";
    return end;
  }

 private:
  [[nodiscard]] bool is_very_long() const { return run_.space().cuts.size() > kMostCuts; }

  [[nodiscard]] std::uint64_t estimated() const {
    std::uint64_t prices = 0;
    for (const auto& branch : branches_) prices += branch->solver->prices();
    return prices;
  }

  // Whether estimates of a very long model, which take long, have brought nothing for a while.
  [[nodiscard]] bool gave_up() {
    if (branches_.empty() || !branches_[0]->pricer->estimates() || !is_very_long()) return false;
    cut_short_ = cut_short_ || estimated() - estimated_at_best_ > kPatience;
    return cut_short_;
  }

  [[nodiscard]] double best_ms() { return run_.shortlist().best_ms(); }

  // The solver's plans are the best there are, or its floors say how far they are from that.
  void search_priced() {
    if (branches_[0]->pricer->exact()) {
      find_near_best();
      cut_short_ = is_very_long();
      if (!cut_short_) prove();
      return;
    }
    find_near_best_of_some();
    climb({kOperatorRelatives, true});
    if (enumerated()) return;
    prove();
    climb({kOperatorRelatives, true});
    bound();
  }

  // Short slowest stages over whole layers and then over every cut, each count of stages by itself; then other orders
  // of devices near those.
  void find_near_best() {
    pace(cuts_.coarse(), kCoarseTolerance, kInfinite);
    refine_near();
    pace(run_.space().cuts, kFineTolerance, kFar);
    refine_near();
    vary();
    settle();
  }

  // The same where a stage has so many ways to run that it takes long to see them all.
  void find_near_best_of_some() {
    use(StagePricer::Effort::kLeast);
    pace(cuts_.coarse(), kCoarseTolerance, kInfinite);
    refine_near();
    use(StagePricer::Effort::kLess);
    pace(cuts_.coarse(), kCoarseTolerance, kInfinite);
    refine_near();
    use(StagePricer::Effort::kFull);
    refine_near();
    use(StagePricer::Effort::kLess);
    pace(run_.space().cuts, kFineTolerance, kFarOfSome);
    refine_near();
    vary();
    use(StagePricer::Effort::kFull);
    refine_near();
    vary();
  }

  void use(StagePricer::Effort effort) {
    for (const auto& branch : branches_) branch->pricer->use(effort);
  }

  // Prices every plan where there are few.
  bool enumerated() {
    if (!unified::is_small(run_.model(), run_.space(), run_.options().enumerated_ways)) return false;
    traced("every plan", [&] { all_priced_ = run_exhaustive(run_, std::nullopt).proven; });
    return all_priced_;
  }

  // The solver only estimates: every plan where there are few, else its plans beside those of other ways to search.
  void search_estimated(const std::optional<Candidate>& start) {
    // Of a budget most is for `aceso`, which starts from what the rest has found.
    limit_to(kEvenShare);
    traced("even stages", [&] { unified::price_even_plans(run_); });
    if (enumerated()) return;
    const bool limited = run_.options().max_evaluations > 0;
    if (!limited) climb({kRelatives, false});
    limit_to(kSolverShare);
    take_floored();
    explore(cuts_.first(), kCoarseTolerance);
    explore(cuts_.coarse(), kCoarseTolerance);
    explore(cuts_.finer(), kFinerTolerance);
    ask_planners(start);
    if (!limited) climb({kRelatives, false});
    run_.limit_evaluations(0);
    unified::alleviate(run_, limited ? best_ : start);
    remember_best();
    climb({is_very_long() ? kFewRelatives : kRelatives, true});
  }

  // Where there are few shapes, and a budget that leaves them something to do.
  void ask_planners(const std::optional<Candidate>& start) {
    const std::uint64_t budget = run_.options().max_evaluations;
    if (run_.space().devices > kMostDevices || is_very_long() || (budget > 0 && budget < kPlannersBudget)) return;
    double share = kSolverShare;
    for (const Strategy& planner : unified::general_planners()) {
      limit_to(share += kPlannerShare);
      const std::size_t steps = run_.trace().size();
      const double before = best_ms();
      planner.run(run_, start);
      run_.trace().resize(steps);  // its own words are for its own trace
      if (best_ms() >= before) continue;
      std::optional<Candidate> now = candidate_of(run_.shortlist().plans().front(), run_.space());
      if (now) record("the planner " + std::string(planner.name), before, std::move(*now));
    }
  }

  // The plans that the evaluator's bound comes from; their stages are seldom even.
  void take_floored() {
    if (!run_.space().knobs.uneven_stages) return;
    const double effort = run_.space().operators <= kShortModel ? kFloorEffort : 0;
    traced("the least floor", [&] {
      for (const Candidate& candidate : run_.evaluator().plans_near_bound({best_ms(), false, effort})) {
        if (run_.stopped()) return;
        run_.consider(candidate);
      }
    });
  }

  // The part that begins may use evaluations up to this share of the budget, if there is one.
  void limit_to(double share) {
    const auto budget = static_cast<double>(run_.options().max_evaluations);
    if (budget > 0) run_.limit_evaluations(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(budget * share)));
  }

  void open_branches() {
    if (!run_.space().knobs.uneven_stages) return;
    if (run_.space().devices > kMostDevices || run_.space().stages_max < run_.space().stages_min) return;
    for (const std::int32_t microbatch : run_.space().microbatches) {
      auto branch = std::make_unique<Branch>();
      branch->microbatch = microbatch;
      branch->pricer = run_.evaluator().stage_pricer(microbatch);
      if (!branch->pricer) continue;
      branch->space = unified::partition_space(run_.space(), run_.model().global_batch / microbatch - 1);
      branch->solver = std::make_unique<PartitionSolver>(branch->space, *branch->pricer,
                                                         [this] { return run_.stopped() || gave_up(); });
      branch->floor = branch->solver->simple_floor();
      branches_.push_back(std::move(branch));
    }
  }

  // Those with good plans first, then those of low floors.
  [[nodiscard]] std::vector<Branch*> by_promise() const {
    std::vector<Branch*> order;
    for (const auto& branch : branches_) order.push_back(branch.get());
    std::stable_sort(order.begin(), order.end(), [](const Branch* a, const Branch* b) {
      return a->best() != b->best() ? a->best() < b->best() : a->floor < b->floor;
    });
    return order;
  }

  // Hands a plan of the solver to the search; false where it may not be an answer.
  bool take(Branch& branch, const Partition& partition) {
    Candidate candidate;
    candidate.microbatch = branch.microbatch;
    std::int32_t begin = 0;
    std::int32_t device = 0;
    auto left = static_cast<std::int32_t>(partition.stages.size());
    for (const unified::PartitionStage& stage : partition.stages) {
      candidate.stages.push_back(branch.pricer->stage(begin, stage.end, {device, stage.devices, left--}));
      begin = stage.end;
      device += stage.devices;
    }
    const double before = best_ms();
    const Score score = run_.consider(candidate);
    if (best_ms() < before) {
      estimated_at_best_ = estimated();
      record("partition at microbatch " + std::to_string(branch.microbatch), before, candidate);
    }
    if (score.fits()) branch.keep(partition);
    return score.fits();
  }

  // The best plan has changed: what held back the one before it, and what replaced that.
  void record(std::string what, double before, Candidate now) {
    SearchStep step;
    step.evaluations = run_.evaluator().evaluations();
    step.stages = static_cast<std::int32_t>(now.stages.size());
    const Load load = load_of(run_.evaluator(), best_ ? *best_ : now);
    step.bottleneck = bottleneck_text(load, load.ranking.front());
    step.primitive = std::move(what);
    step.before_ms = before;
    step.after_ms = best_ms();
    run_.step(std::move(step));
    best_ = std::move(now);
  }

  // A part of the search that keeps no trace of its own.
  template <typename Part>
  void traced(const char* what, Part&& part) {
    const double before = best_ms();
    part();
    if (best_ms() >= before) return;
    std::optional<Candidate> now = candidate_of(run_.shortlist().plans().front(), run_.space());
    if (now) record(what, before, std::move(*now));
  }

  // After a part that has left its own trace.
  void remember_best() {
    if (!run_.shortlist().empty()) best_ = candidate_of(run_.shortlist().plans().front(), run_.space());
  }

  void climb(const unified::ClimbOptions& options) {
    traced("a climb over near relatives", [&] { unified::climb(run_, options); });
  }

  // What a branch must beat to be of use: an estimate says nothing of other branches.
  [[nodiscard]] double to_beat(const Branch& branch) { return branch.pricer->estimates() ? branch.best() : best_ms(); }

  double solve(Branch& branch, std::vector<std::int32_t> cuts, double beat, double tolerance) {
    branch.solver->use_cuts(std::move(cuts));
    return branch.solver->search(beat, tolerance, [&](const Partition& plan) {
      if (take(branch, plan)) beat = std::min(beat, branch.objective(plan));
      return beat;
    });
  }

  // Plans of a short slowest stage for each count of stages, with microbatches whose best is not yet known or near.
  void pace(const std::vector<std::int32_t>& cuts, double tolerance, double most) {
    for (Branch* const branch : by_promise()) {
      if (run_.stopped()) return;
      const bool far = branch->best() > most * best_ms() && !branch->pool.empty();
      if (far || branch->floor >= best_ms()) continue;
      branch->solver->use_cuts(cuts, cuts_.layers());
      branch->solver->least_pace(best_ms(), tolerance, [&](const Partition& plan) {
        take(*branch, plan);
        return best_ms();
      });
    }
  }

  void refine_near() {
    for (Branch* const branch : by_promise()) {
      if (branch->best() <= kFar * best_ms()) refine(*branch);
    }
  }

  // All branches over these cuts, and then finer cuts for the most promising sequences of devices.
  void explore(const std::vector<std::int32_t>& cuts, double tolerance) {
    if (cuts.empty()) return;
    for (Branch* const branch : by_promise()) {
      if (run_.stopped() || gave_up()) return;
      if (branch->floor < best_ms()) solve(*branch, cuts, to_beat(*branch), tolerance);
    }
    for (Branch* const branch : by_promise()) refine(*branch);
  }

  void refine(Branch& branch) {
    std::vector<Partition> pool = branch.pool;
    if (pool.size() > kRefined) pool.resize(kRefined);
    for (const Partition& partition : pool) {
      const bool far = !branch.pricer->estimates() && branch.objective(partition) > kFar * best_ms();
      if (!far && !run_.stopped()) refine(branch, partition);
    }
  }

  // Finer and finer cuts around a plan's, its devices as they are, until single operators make nothing better.
  void refine(Branch& branch, Partition partition) {
    const std::vector<std::int32_t> devices = devices_of(partition);
    branch.solver->use_structure(devices);
    std::int32_t stride = cuts_.coarse_stride();
    for (int round = 0; round < kRefinements && !run_.stopped(); ++round) {
      const double before = branch.objective(partition);
      const std::int32_t finer = std::max(1, stride / 6);
      branch.solver->use_cuts(cuts_.around(partition, std::max(stride, 6), finer));
      double beat = before;
      branch.solver->search(before, kFineTolerance, [&](const Partition& plan) {
        if (branch.objective(plan) < beat && take(branch, plan)) {
          beat = branch.objective(plan);
          partition = plan;
        }
        return beat;
      });
      if (stride == 1 && beat >= before * (1 - kFineTolerance)) break;
      stride = finer;
    }
    branch.solver->use_structure({});
  }

  // Other orders of devices near that of the best plan, each with its own best cuts.
  void vary() {
    Branch& best = *by_promise().front();
    while (!run_.stopped() && vary(best)) {
    }
  }

  // From the best orders of devices to the first one near them that beats them all; false where none does.
  bool vary(Branch& branch) {
    const double before = branch.best();
    const std::vector<Partition> pool = branch.pool;
    for (const Partition& from : pool) {
      if (branch.objective(from) > kVaried * before) return false;
      for (const std::vector<std::int32_t>& devices : unified::orders_near(branch.space, devices_of(from))) {
        if (run_.stopped()) return false;
        if (branch.varied.insert(devices).second && branch.solver->may_use(devices)) try_order(branch, devices);
        if (branch.best() < before) return true;
      }
    }
    return false;
  }

  void try_order(Branch& branch, const std::vector<std::int32_t>& devices) {
    branch.solver->use_structure(devices);
    branch.solver->use_cuts(run_.space().cuts, cuts_.layers());
    std::optional<Partition> start;
    const double beat = kVaried * branch.best();
    branch.solver->least_pace(beat, kFineTolerance, [&](const Partition& plan) {
      if (!start || branch.objective(plan) < branch.objective(*start)) start = plan;
      return beat;
    });
    if (start) refine(branch, *start);
    branch.solver->use_structure({});
  }

  // The best cuts there are around the best plan's, to the last digit.
  void settle() {
    Branch& branch = *by_promise().front();
    bool better = !branch.pool.empty();
    for (int round = 0; better && round < kRefinements && !run_.stopped(); ++round) {
      const double before = branch.best();
      const Partition best = branch.pool[0];
      branch.solver->use_structure(devices_of(best));
      solve(branch, cuts_.around(best, kSettled, 1), before, kExactTolerance);
      better = branch.best() < before;
    }
    branch.solver->use_structure({});
  }

  void prove() {
    for (Branch* const branch : by_promise()) {
      if (run_.stopped()) return;
      if (branch->floor >= best_ms()) continue;
      const bool exact = branch->pricer->exact();
      const double floor = solve(*branch, run_.space().cuts, best_ms(), exact ? kExactTolerance : kFineTolerance);
      if (exact) branch->floor = std::max(branch->floor, floor);
    }
  }

  // A bound where the stages' times are not the least: the same search over floors of stages. Coarse cuts say nothing
  // of finer ones, so it looks at every cut.
  void bound() {
    for (Branch* const branch : by_promise()) {
      if (run_.stopped()) return;
      if (branch->pricer->exact() || branch->floor >= best_ms()) continue;
      const std::unique_ptr<StagePricer> floors = run_.evaluator().floor_pricer(branch->microbatch);
      if (!floors) continue;
      PartitionSolver solver(branch->space, *floors, [this] { return run_.stopped(); });
      solver.use_cuts(run_.space().cuts);
      double least = best_ms();
      const double floor = solver.search(least, kBoundTolerance, [&](const Partition& plan) {
        return least = std::min(least, plan.objective(branch->space.rounds));
      });
      branch->floor = std::max(branch->floor, floor);
    }
  }

  // 0 where the solver only estimates and plans are left: the evaluator has a bound of its own.
  [[nodiscard]] double lower_bound() {
    if (run_.shortlist().empty()) return 0;
    if (all_priced_) return run_.options().excluded.empty() ? best_ms() : 0;
    if (branches_.size() < run_.space().microbatches.size()) return 0;
    double bound = best_ms();
    for (const auto& branch : branches_) bound = std::min(bound, branch->pricer->estimates() ? 0 : branch->floor);
    return bound;
  }

  SearchRun& run_;
  unified::CutSets cuts_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::optional<Candidate> best_;  // so far, for the trace
  bool all_priced_ = false;
  std::uint64_t estimated_at_best_ = 0;
  bool cut_short_ = false;  // for the model's length
};

}  // namespace

// Under a paper's arithmetic its planner comes first: it may set knobs that a Candidate cannot, and its proof is one.
StrategyEnd run_unified(SearchRun& run, const std::optional<Candidate>& start) {
  const Strategy* const planner = unified::planner_of(run.evaluator().cost_model().name());
  if (planner == nullptr) return Unified(run).search(start);
  const StrategyEnd theirs = planner->run(run, start);
  if (theirs.proven || run.stopped()) return theirs;
  StrategyEnd end = Unified(run).search(start);
  end.lower_bound_ms = std::max(end.lower_bound_ms, theirs.lower_bound_ms);
  return end;
}

}  // namespace trimtab::tuner
