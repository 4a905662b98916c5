#include "strategies/autopipe/autopipe.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "search/strategy.hpp"
#include "solvers/autopipe/partition.hpp"
#include "solvers/autopipe/planner.hpp"
#include "strategies/candidates.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace autopipe {
namespace {

constexpr std::uint64_t kFirstLook = 1'000'000;  // simulated actions for each shape, before any is looked at in depth

// A shape of a plan as AutoPipe has it, every stage alike, and the chain of blocks that it leaves to be cut: measured
// by the run's evaluator, so that any cost model's stages can be planned. One per search.
struct Shape {
  std::int32_t microbatch = 1;
  std::int32_t stages = 1;
  Split split;  // of every stage
};

// Every shape of the run's space, in order of microbatch, stages and split. Whether these, with all cuts, are the whole
// space: no stage can have other devices or another split than its neighbour.
struct Shapes {
  std::vector<Shape> shapes;
  bool whole_space = true;
};
Shapes shapes_of(const Model& model, const PlanSpace& space) {
  Shapes all;
  all.whole_space = !space.mixed_splits && !space.alternate_dimensions;
  for (const std::int32_t microbatch : space.microbatches) {
    for (std::int32_t stages = std::max(1, space.stages_min); stages <= space.stages_max; ++stages) {
      const auto splits = space.device_splits(model, microbatch, stages, 2);
      if (splits.empty()) continue;
      const bool even = allows_even_devices(space, stages);
      const std::vector<Split> ways =
          even ? space.splits(model, microbatch, space.devices / stages) : std::vector<Split>{};
      const bool only_even = splits.size() == 1 && even && ways.size() == 1;
      all.whole_space = all.whole_space && (only_even || (stages == 1 && even));
      for (const Split& split : ways) {
        const bool sharded = split.sharded != ShardedLevel::kNone;
        all.whole_space = all.whole_space && !sharded;
        if (!sharded) all.shapes.push_back({microbatch, stages, split});
      }
    }
  }
  return all;
}

class ShapeBlocks {
 public:
  // `run` must outlive this.
  ShapeBlocks(SearchRun& run, const Shape& shape, Transfers transfers)
      : run_(run), shape_(shape), transfers_(transfers), first_(first_operators(run, shape.stages)) {
    count_ = static_cast<std::int32_t>(first_.size());
    Ends ends;
    for (std::int32_t x = 1; x < shape.stages; ++x) ends.push_back(x);
    ends.push_back(count_);
    probe_ = candidate(ends);
  }

  // Operators that no cut parts are one block; of a very long model those of a layer, or of several. Nothing where a
  // cost is missing or the run was stopped. REQUIRES: shape.stages > 1.
  [[nodiscard]] std::optional<Blocks> blocks() {
    Blocks blocks;
    blocks.stages = shape_.stages;
    blocks.microbatches = run_.model().global_batch / shape_.microbatch;
    blocks.transfers = transfers_;
    if (!add_times(blocks) || !add_transfers(blocks)) return std::nullopt;
    return blocks;
  }
  // Adds the reach of each stage and, where the space has it, the recompute that the evaluator chooses for its memory.
  // False where the run was stopped. The blocks must not outlive this.
  // A stage's memory grows with its blocks and falls along the pipeline: its reach never falls with either.
  [[nodiscard]] bool limit_memory(Blocks& blocks) {
    if (price(0, 0, 1, std::nullopt).limit_bytes <= 0) return true;
    blocks.reach.assign(static_cast<std::size_t>(shape_.stages) * count_, 0);
    for (std::int32_t x = 0; x < shape_.stages; ++x) {
      std::int32_t* const row = blocks.reach.data() + static_cast<std::size_t>(x) * count_;
      std::int32_t furthest = 0;
      for (std::int32_t begin = 0; begin < count_; ++begin) {
        row[begin] = begin;
        if (x > 0 ? begin < x : begin > 0) continue;  // no partition has such a stage
        if (run_.stopped()) return false;
        if (x > 1) furthest = std::max(furthest, row[begin - count_]);
        furthest = std::max(furthest, begin);
        while (furthest < count_ && price(x, begin, furthest + 1, std::nullopt).excess_bytes <= 0) ++furthest;
        row[begin] = furthest;
      }
    }
    if (!run_.space().knobs.recompute) return true;
    blocks.recompute = [this](std::int32_t x, std::int32_t begin, std::int32_t end) {
      return price(x, begin, end, std::nullopt).recompute;
    };
    return true;
  }
  // Whether every cut of the space is one between blocks.
  [[nodiscard]] bool every_cut() const { return first_.size() == run_.space().cuts.size() + 1; }
  // The same with every operator recomputed, for partitions to begin from where memory is short.
  [[nodiscard]] Blocks recomputed(const Blocks& blocks) {
    Blocks all = blocks;
    all.recompute = {};
    for (std::int32_t block = 0; block < count_; ++block) {
      const Range whole{operator_at(block), operator_at(block + 1)};
      all.backward[block] +=
          price(block == 0 ? 0 : shape_.stages - 1, block, block + 1, std::vector<Range>{whole}).recompute;
    }
    return all;
  }

  [[nodiscard]] Candidate candidate(Ends ends) const {
    for (std::int32_t& end : ends) end = operator_at(end);
    return with_operators(ends);
  }
  // even cuts by layers
  [[nodiscard]] Candidate even_candidate() const { return with_operators(even_ends(run_, shape_.stages)); }

 private:
  static constexpr std::size_t kMostBlocks = 512;
  // First operators of the blocks.
  static std::vector<std::int32_t> first_operators(const SearchRun& run, std::int32_t stages) {
    const std::vector<std::int32_t>& cuts = run.space().cuts;
    const std::vector<Operator>& operators = run.model().operators;
    std::vector<std::int32_t> first{0};
    for (const std::int32_t cut : cuts) {
      if (cuts.size() < kMostBlocks || operators[cut].layer != operators[cut - 1].layer) first.push_back(cut);
    }
    if (first.size() <= std::max(kMostBlocks, static_cast<std::size_t>(stages))) {
      if (static_cast<std::int32_t>(first.size()) >= stages) return first;
      first = {0};  // fewer layers than stages
      first.insert(first.end(), cuts.begin(), cuts.end());
    }
    const std::size_t most = std::max(kMostBlocks, static_cast<std::size_t>(stages));
    std::vector<std::int32_t> thinned;
    for (std::size_t i = 0; i < std::min(most, first.size()); ++i) {
      thinned.push_back(first[i * first.size() / std::min(most, first.size())]);
    }
    return thinned;
  }

  [[nodiscard]] Candidate with_operators(const std::vector<std::int32_t>& ends) const {
    return uniform_candidate(shape_.microbatch, ends, shape_.split.dp * shape_.split.tp, shape_.split);
  }
  // Of blocks [begin, end) as stage x. `recompute`: none = the evaluator's choice.
  const StagePrice& price(std::int32_t x, std::int32_t begin, std::int32_t end,
                          std::optional<std::vector<Range>> recompute) {
    if (x > 0) probe_.stages[x - 1].end = operator_at(begin);
    probe_.stages[x].end = operator_at(end);
    probe_.stages[x].recompute = std::move(recompute);
    return run_.evaluator().stage(probe_, static_cast<std::size_t>(x));
  }
  [[nodiscard]] std::int32_t operator_at(std::int32_t block) const {
    return block < count_ ? first_[block] : run_.space().operators;
  }
  bool add_times(Blocks& blocks) {
    for (std::int32_t block = 0; block < count_; ++block) {
      const StagePrice& of = price(block == 0 ? 0 : shape_.stages - 1, block, block + 1, std::vector<Range>{});
      if (!of.priced) return false;
      blocks.forward.push_back(of.forward + of.forward_wait);
      blocks.backward.push_back(of.backward + of.backward_wait);
    }
    return true;
  }
  bool add_transfers(Blocks& blocks) {
    for (std::int32_t hop = 0; hop + 1 < shape_.stages; ++hop) {
      blocks.transfer.push_back(0);
      if (run_.stopped()) return false;
      for (std::int32_t cut = 1; cut < count_; ++cut) {
        const StagePrice& of = price(hop, hop == 0 ? 0 : cut - 1, cut, std::vector<Range>{});
        const double transfer = of.communication - of.forward_wait - of.backward_wait;
        if (!of.priced || !(transfer < kNever)) return false;
        blocks.transfer.push_back(std::max(0.0, transfer));
      }
    }
    return true;
  }

  SearchRun& run_;
  Shape shape_;
  Transfers transfers_;
  std::vector<std::int32_t> first_;  // operator of each block
  std::int32_t count_;
  Candidate probe_;
};

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
    const Shapes shapes = shapes_of(run_.model(), run_.space());
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
    const std::int32_t sliced = run_.shortlist().plans().front().schedule.sliced_microbatches;
    run_.step(timed_step(run_, static_cast<std::size_t>(planning.partitions->stages()),
                         "microbatch " + std::to_string(planning.shape.microbatch) + ", master stage " +
                             std::to_string(simulator.step(ends).master),
                         what + (sliced == 0 ? "" : ", " + std::to_string(sliced) + " sliced"), before, after));
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

StrategyEnd search(SearchRun& run, std::optional<Transfers> own) {
  return Autopipe(run, own).search();
}

}  // namespace autopipe

StrategyEnd run_autopipe(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return autopipe::search(run, std::nullopt);
}

}  // namespace trimtab::tuner
