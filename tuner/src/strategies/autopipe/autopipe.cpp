#include "strategies/autopipe/autopipe.hpp"

#include <algorithm>
#include <numeric>

#include "search/strategy.hpp"
#include "search/texts.hpp"
#include "solvers/autopipe/planner.hpp"
#include "strategies/autopipe/shape_blocks.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

using autopipe::Balanced;
using autopipe::Blocks;
using autopipe::Ends;
using autopipe::kNever;
using autopipe::PartitionFloor;
using autopipe::PartitionPlan;
using autopipe::Partitions;
using autopipe::Planned;
using autopipe::PlannerOptions;
using autopipe::Shape;
using autopipe::ShapeBlocks;
using autopipe::Shapes;
using autopipe::Simulator;

constexpr std::uint64_t kFirstLook = 1'000'000;  // simulated actions for each shape, before any is looked at in depth

// One shape with its chain of blocks and what is known of its partitions.
struct Planning {
  Shape shape;
  Score even;                                 // of its even cuts
  std::unique_ptr<ShapeBlocks> shape_blocks;  // none yet: not looked at
  Blocks blocks;
  std::unique_ptr<Partitions> partitions;  // none: nothing to plan
  PartitionPlan plan;
};

class Autopipe {
 public:
  Autopipe(SearchRun& run, std::optional<Transfers> own)
      : run_(run),
        exact_(own.has_value()),
        transfers_(own.value_or(Transfers::kEager)),
        slices_(exact_ && run.space().sliced_microbatches) {}

  StrategyEnd search() {
    const Shapes shapes = autopipe::shapes_of(run_.model(), run_.space());
    complete_ = shapes.whole_space;
    for (const Shape& shape : shapes.shapes) {
      if (run_.stopped()) break;
      plannings_.push_back(
          {shape, run_.consider(ShapeBlocks(run_, shape, transfers_).even_candidate()), {}, {}, {}, {}});
    }
    // The most promising first: a search that is cut short has looked at those.
    std::stable_sort(plannings_.begin(), plannings_.end(),
                     [](const Planning& a, const Planning& b) { return a.even.better_than(b.even); });
    for (Planning& planning : plannings_) {
      if (prepare(planning)) plan(planning, kFirstLook);
    }
    std::stable_sort(plannings_.begin(), plannings_.end(),
                     [](const Planning& a, const Planning& b) { return a.plan.lower_bound < b.plan.lower_bound; });
    for (Planning& planning : plannings_) {
      if (planning.partitions) plan(planning, PlannerOptions{}.effort);
    }
    return end();
  }

 private:
  // False where there is no choice of cuts, none that fits, or none that could be the best.
  bool prepare(Planning& planning) {
    if (run_.stopped()) return false;
    if (planning.shape.stages == 1 || !run_.space().knobs.uneven_stages) {
      planning.plan.lower_bound = planning.even.fits() ? planning.even.ms : kNever;
      return false;
    }
    planning.shape_blocks = std::make_unique<ShapeBlocks>(run_, planning.shape, transfers_);
    complete_ = complete_ && planning.shape_blocks->every_cut();
    std::optional<Blocks> blocks = planning.shape_blocks->blocks();
    if (!blocks) {  // a cost is missing: what its even cuts miss has been named
      complete_ = false;
      return false;
    }
    planning.blocks = std::move(*blocks);
    planning.blocks.slices = slices_ && most_sliced(planning.shape_blocks->even_candidate(), run_.model()) > 0;
    planning.plan.lower_bound = PartitionFloor(Partitions(planning.blocks)).least();
    if (bounded(planning.plan.lower_bound)) return false;
    if (!planning.shape_blocks->limit_memory(planning.blocks)) return false;
    planning.partitions = std::make_unique<Partitions>(planning.blocks);
    planning.plan.lower_bound = PartitionFloor(*planning.partitions).least();
    if (planning.plan.lower_bound == kNever) planning.partitions.reset();
    return planning.partitions != nullptr;
  }

  // A bound of the recurrences is one of their own model alone. With excluded plans the next best is wanted too.
  [[nodiscard]] bool bounded(double bound) const {
    return exact_ && !run_.shortlist().excludes_any() && bound >= run_.shortlist().best_ms();
  }

  void plan(Planning& planning, std::uint64_t effort) {
    const PartitionPlan before = planning.plan;
    if (run_.stopped() || before.exact() || bounded(before.lower_bound)) return;
    PlannerOptions options;
    options.effort = effort;
    options.stop = [this] { return run_.stopped(); };
    options.start = before.best.ends.empty() ? start_with_recompute(planning) : before.best.ends;
    if (exact_ && !run_.shortlist().excludes_any()) options.good_enough = run_.shortlist().best_ms();
    planning.plan = plan_partition(*planning.partitions, options);
    planning.plan.lower_bound = std::max(planning.plan.lower_bound, before.lower_bound);
    price(planning);
  }

  // Algorithm 1 counts no recompute; where memory is short its partition with all of it is nearer.
  Ends start_with_recompute(Planning& planning) {
    if (!planning.blocks.recompute) return {};
    const Partitions partitions(planning.shape_blocks->recomputed(planning.blocks));
    const Balanced balanced(partitions);
    if (balanced.heaviest(partitions.blocks(), partitions.stages()) == kNever) return {};
    Simulator simulator(partitions);
    return shift_master(partitions, balanced, simulator, kFirstLook, [this] { return run_.stopped(); }).ends;
  }

  void price(Planning& planning) {
    const PartitionPlan& plan = planning.plan;
    double best = run_.shortlist().best_ms();
    const auto take = [&](const Planned& planned, const std::string& what) {
      const double ms = consider(planning.shape_blocks->candidate(planned.ends));
      if (ms < best) {
        trace(planning, planned.ends, what, best, ms);
        best = ms;
      }
    };
    take(plan.balanced, "balance the stages (Algorithm 1)");
    take(plan.shifted, "shift the master stage, adjust the cool-down");
    const double gap = 1 - plan.lower_bound / plan.best.time;
    take(plan.best, plan.exact() ? "move cuts, branch and bound: the optimum of this shape"
                                 : "move cuts, branch and bound: at most " + percent_text(gap) + " above the optimum");
    neighbours(planning, best);
  }

  // One cut by a block, while that gains: what the recurrences leave out may weigh, and runners-up are wanted.
  void neighbours(Planning& planning, double best) {
    Ends ends = planning.plan.best.ends;
    bool gained = true;
    while (gained && !run_.stopped()) {
      gained = false;
      for (std::size_t cut = 0; cut + 1 < ends.size(); ++cut) {
        for (const std::int32_t by : {-1, 1}) {
          Ends moved = ends;
          moved[cut] += by;
          if (!planning.partitions->allowed(moved)) continue;
          const double ms = consider(planning.shape_blocks->candidate(moved));
          if (ms >= best) continue;
          trace(planning, moved, "move a cut", best, ms);
          best = ms;
          ends = moved;
          gained = true;
        }
      }
    }
  }

  double consider(const Candidate& candidate) {
    const Score score = run_.consider(candidate);
    return score.fits() ? score.ms : kNever;
  }

  void trace(Planning& planning, const Ends& ends, const std::string& what, double before, double after) {
    Simulator simulator(*planning.partitions);
    SearchStep step;
    step.evaluations = run_.evaluator().evaluations();
    step.stages = planning.partitions->stages();
    step.bottleneck = "microbatch " + std::to_string(planning.shape.microbatch) + ", master stage " +
                      std::to_string(simulator.step(ends).master);
    const std::int32_t sliced = run_.shortlist().plans().front().schedule.sliced_microbatches;
    step.primitive = what + (sliced == 0 ? "" : ", " + std::to_string(sliced) + " sliced");
    step.before_ms = before < kNever ? before : after;
    step.after_ms = after;
    run_.step(std::move(step));
  }

  [[nodiscard]] StrategyEnd end() {
    StrategyEnd end{"converged", false, 0};
    if (!exact_ || !complete_ || run_.stopped()) return end;
    double bound = run_.shortlist().best_ms();
    for (const Planning& planning : plannings_) bound = std::min(bound, planning.plan.lower_bound);
    if (bound < kNever) end.lower_bound_ms = bound;
    end.proven = !run_.shortlist().excludes_any() && bound >= run_.shortlist().best_ms() * (1 - 1e-12);
    return end;
  }

  SearchRun& run_;
  const bool exact_;  // the model prices by these recurrences
  const Transfers transfers_;
  const bool slices_;
  std::vector<Planning> plannings_;
  bool complete_ = true;  // the shapes with their cuts are the whole space, and all could be planned
};

}  // namespace

namespace autopipe {

StrategyEnd search(SearchRun& run, std::optional<Transfers> own) {
  return Autopipe(run, own).search();
}

}  // namespace autopipe

StrategyEnd run_autopipe(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return autopipe::search(run, std::nullopt);
}

}  // namespace trimtab::tuner
