#include "solvers/autopipe/planner.hpp"

#include <deque>
#include <set>

namespace trimtab::tuner::autopipe {
namespace {

// One way to look for better partitions. Ends early once its effort, of the simulator's work, is spent, or when `stop`
// (asked often) says so.
class Phase {
 protected:
  Phase(const Partitions& partitions, Simulator& simulator, Planned from, std::uint64_t effort,
        const std::function<bool()>& stop)
      : partitions_(partitions),
        simulator_(simulator),
        best_(std::move(from)),
        until_(simulator.work() + effort),
        stop_(stop) {}
  [[nodiscard]] bool over() const { return simulator_.work() >= until_ || (stop_ && stop_()); }

  const Partitions& partitions_;
  Simulator& simulator_;
  Planned best_;
  const std::uint64_t until_;
  const std::function<bool()>& stop_;
};

class MasterShift : Phase {
 public:
  MasterShift(const Partitions& partitions, const Balanced& balanced, Simulator& simulator, std::uint64_t effort,
              const std::function<bool()>& stop)
      : Phase(partitions, simulator, {}, effort, stop), balanced_(balanced), stages_(partitions.stages()) {}

  Planned run() {
    const Ends first = balanced_.ends(partitions_.blocks(), stages_);
    push(first, simulate(first).master);
    while (!queue_.empty() && !over()) {
      const auto [ends, master] = std::move(queue_.front());
      queue_.pop_front();
      adjust_cooldown(ends, master);
      shift_forward(ends, master);
      shift_back(ends, master);
    }
    return best_;
  }

 private:
  Simulator::Step simulate(const Ends& ends) {
    const Simulator::Step step = simulator_.step(ends);
    if (step.time < best_.time) best_ = {ends, step.time};
    return step;
  }

  void push(const Ends& ends, std::int32_t master) {
    if (seen_.insert(ends).second) queue_.emplace_back(ends, master);
  }

  [[nodiscard]] std::int32_t begin_of(const Ends& ends, std::int32_t x) const { return x > 0 ? ends[x - 1] : 0; }
  [[nodiscard]] double forward(const Ends& ends, std::int32_t x) const {
    return partitions_.forward(begin_of(ends, x), ends[x]);
  }
  [[nodiscard]] double backward(const Ends& ends, std::int32_t x) const {
    return partitions_.backward(begin_of(ends, x), ends[x]);
  }
  [[nodiscard]] double hop_before(const Ends& ends, std::int32_t x) const {
    return partitions_.transfer(x - 1, begin_of(ends, x));
  }

  // Step 2. The drained microbatches wait for the master alone while, for every stage s behind it, the work of the
  // stages between is no more than s - i of its backwards (inequality 1). Where it is more, a first block moves
  // forward.
  void adjust_cooldown(Ends ends, std::int32_t master) {
    double gap = 0;
    for (std::int32_t s = master + 1; !over();) {
      const Simulator::Step step = simulate(ends);
      if (step.master != master || s >= stages_) return;
      const double between = partitions_.work(ends[master], ends[s]);
      if (between <= (s - master) * backward(ends, master) + gap) {
        ++s;
        continue;
      }
      const std::int32_t taker = taker_of(ends, master, s);
      if (taker < 0) return;
      const double over_by = partitions_.work(ends[master], ends[taker]) - (taker - master) * backward(ends, master);
      gap += std::max(0.0, over_by - gap);
      ++ends[taker];
      s = taker + 1;
    }
  }

  // The first stage between the master and s that stays lighter than the master with one block more; -1: none.
  [[nodiscard]] std::int32_t taker_of(const Ends& ends, std::int32_t master, std::int32_t s) const {
    const double heaviest = forward(ends, master) + backward(ends, master) + hop_before(ends, master);
    for (std::int32_t t = master + 1; t < s; ++t) {
      const bool leaves_one = ends[t + 1] - ends[t] > 1;
      const double work = forward(ends, t) + backward(ends, t) + partitions_.transfer(t, ends[t]);
      const double block = partitions_.work(ends[t], ends[t] + 1);
      if (leaves_one && heaviest > work + block && partitions_.fits(t, begin_of(ends, t), ends[t] + 1)) return t;
    }
    return -1;
  }

  // Step 3: the master's first block to the stages before, balanced anew.
  void shift_forward(const Ends& ends, std::int32_t master) {
    if (master == 0 || ends[master] - ends[master - 1] < 2) return;
    const std::int32_t blocks = ends[master - 1] + 1;
    if (balanced_.heaviest(blocks, master) == kNever) return;
    Ends shifted = balanced_.ends(blocks, master);
    shifted.insert(shifted.end(), ends.begin() + master, ends.end());
    consider(shifted, stages_);
  }

  // And its last block to the stage behind.
  void shift_back(const Ends& ends, std::int32_t master) {
    if (master + 1 >= stages_ || ends[master] - 1 < master + 1) return;
    const std::int32_t blocks = ends[master] - 1;
    if (balanced_.heaviest(blocks, master + 1) == kNever) return;
    Ends shifted = balanced_.ends(blocks, master + 1);
    shifted.insert(shifted.end(), ends.begin() + master + 1, ends.end());
    consider(shifted, master);
  }

  void consider(const Ends& ends, std::int32_t last_master) {
    if (over() || seen_.contains(ends) || !partitions_.allowed(ends)) return;
    const Simulator::Step step = simulate(ends);
    if (step.master <= last_master) push(ends, step.master);
  }

  const Balanced& balanced_;
  const std::int32_t stages_;
  std::set<Ends> seen_;
  std::deque<std::pair<Ends, std::int32_t>> queue_;
};

// Local search over a partition's boundaries: one boundary by one or two blocks, two at once, or a run of boundaries by
// one block: moves that gain, the first found each time, until none is left. A move is simulated only where its floor
// leaves room. Deterministic.
class BoundaryMoves : Phase {
 public:
  BoundaryMoves(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                std::uint64_t effort, const std::function<bool()>& stop)
      : Phase(partitions, simulator, std::move(from), effort, stop), floor_(floor), cuts_(partitions.stages() - 1) {}

  Planned run() {
    while (!over() && (single() || pair() || a_run())) {
    }
    return best_;
  }

 private:
  bool single() {
    for (const std::int32_t by : {-1, 1, -2, 2}) {
      for (std::int32_t cut = 0; cut < cuts_; ++cut) {
        if (moved(cut, cut + 1, by)) return true;
      }
    }
    return false;
  }

  // Neighbouring boundaries together are a run; here they move apart or towards one another, or are further apart.
  bool pair() {
    for (const std::int32_t by : {-1, 1}) {
      for (const std::int32_t other : {-1, 1}) {
        for (std::int32_t cut = 0; cut < cuts_; ++cut) {
          for (std::int32_t second = cut + 1; second < cuts_; ++second) {
            if (by == other && second == cut + 1) continue;
            if (moved_both(cut, by, second, other)) return true;
          }
        }
      }
    }
    return false;
  }

  bool a_run() {
    for (const std::int32_t by : {-1, 1}) {
      for (std::int32_t first = 0; first < cuts_; ++first) {
        for (std::int32_t last = first + 2; last <= cuts_; ++last) {
          if (moved(first, last, by)) return true;
        }
      }
    }
    return false;
  }

  bool moved(std::int32_t first, std::int32_t last, std::int32_t by) {
    tried_ = best_.ends;
    for (std::int32_t cut = first; cut < last; ++cut) tried_[cut] += by;
    return better();
  }

  bool moved_both(std::int32_t cut, std::int32_t by, std::int32_t second, std::int32_t other) {
    tried_ = best_.ends;
    tried_[cut] += by;
    tried_[second] += other;
    return better();
  }

  bool better() {
    simulator_.count(static_cast<std::uint64_t>(partitions_.stages()));
    if (!partitions_.allowed(tried_) || over()) return false;
    if (floor_.quick(tried_) >= best_.time || floor_.of(tried_) >= best_.time) return false;
    const double time = simulator_.time(tried_);
    if (time >= best_.time) return false;
    best_.time = time;
    best_.ends.swap(tried_);
    return true;
  }

  const PartitionFloor& floor_;
  const std::int32_t cuts_;
  Ends tried_;
};

constexpr std::uint64_t kLooksBetweenStops = 4096;

// Branch and bound over the cuts, first stage first, by PartitionFloor: the optimum where the effort allows, else the
// best bound that it has proven. The threshold rises from the least floor to the best time known: what is below it is
// seen in full before more is asked, so every completed threshold is a bound. Deterministic.
class BranchAndBound : Phase {
 public:
  BranchAndBound(const Partitions& partitions, const PartitionFloor& floor, Simulator& simulator, Planned from,
                 std::uint64_t effort, const std::function<bool()>& stop)
      : Phase(partitions, simulator, std::move(from), effort, stop),
        floor_(floor),
        ends_(static_cast<std::size_t>(partitions.stages())) {}

  // `good_enough`: what is not faster than this need not be told apart; it ends once its bound is there.
  void run(double good_enough) {
    proven_ = std::min(floor_.least(), best_.time);
    double share = 1.0 / 16;  // of the way from the bound to the best
    const double wanted = std::min(good_enough, best_.time);
    while (proven_ < std::min(good_enough, best_.time) && !over_) {
      const double most = std::min(good_enough, best_.time);
      threshold_ = share >= 1 || most == kNever ? most : proven_ + share * (wanted - proven_);
      if (!(threshold_ > proven_)) threshold_ = most;
      threshold_ = std::min(threshold_, most);
      branch(0, 0, 0);
      // A partition below the threshold is the best there is: all below it were looked at.
      if (!over_) proven_ = std::min(threshold_, best_.time);
      share *= 2;
    }
  }

  [[nodiscard]] const Planned& best() const { return best_; }
  // No partition takes less.
  [[nodiscard]] double lower_bound() const { return proven_; }

 private:
  // Stages [0, x) hold blocks [0, begin) and are filled after `filled`.
  void branch(std::int32_t x, std::int32_t begin, double filled) {
    const std::int32_t stages = partitions_.stages();
    const std::int32_t blocks = partitions_.blocks();
    const std::int32_t least = x + 1 == stages ? blocks : begin + 1;
    const std::int32_t furthest = std::min(partitions_.reach(x, begin), blocks - (stages - 1 - x));
    for (std::int32_t end = least; end <= furthest && !over_; ++end) {
      spend(4);
      if (filled + partitions_.microbatches() * partitions_.work(begin, end) >= limit()) return;
      const double passed = filled + floor_.passing(x, begin, end);
      if (passed + floor_.rest(x + 1, end) >= limit()) continue;
      if (filled + floor_.of_stage(x, begin, end) >= limit() || pairs_exceed(x, {begin, end}, filled)) continue;
      ends_[x] = end;
      if (x + 1 < stages) {
        branch(x + 1, end, passed);
      } else {
        leaf();
      }
    }
  }

  [[nodiscard]] double limit() const { return std::min(threshold_, best_.time); }

  [[nodiscard]] bool pairs_exceed(std::int32_t z, const PartitionFloor::Stage& at, double filled) {
    spend(2 * z);
    for (std::int32_t x = 0; x < z; ++x) {
      if (floor_.of_pair(x, {x > 0 ? ends_[x - 1] : 0, ends_[x]}, z, at, filled) >= limit()) return true;
    }
    return false;
  }

  void leaf() {
    const double time = simulator_.time(ends_);
    if (time < best_.time) best_ = {ends_, time};
    if (stop_ && stop_()) over_ = true;
  }

  // Floors cost too, some actions each: whole subtrees are pruned without a leaf.
  void spend(std::int32_t floors) {
    simulator_.count(static_cast<std::uint64_t>(floors));
    over_ = over_ || simulator_.work() >= until_ || (++looks_ % kLooksBetweenStops == 0 && stop_ && stop_());
  }

  const PartitionFloor& floor_;
  double proven_ = 0;
  double threshold_ = kNever;
  bool over_ = false;
  std::uint64_t looks_ = 0;
  Ends ends_;
};

}  // namespace

Balanced::Balanced(const Partitions& partitions) : partitions_(partitions) {
  const auto row = static_cast<std::size_t>(partitions.blocks()) + 1;
  least_.assign((static_cast<std::size_t>(partitions.stages()) + 1) * row, kNever);
  least_[0] = 0;
  for (std::int32_t stages = 1; stages <= partitions.stages(); ++stages) {
    double* const best = least_.data() + static_cast<std::size_t>(stages) * row;
    for (std::int32_t blocks = stages; blocks <= partitions.blocks(); ++blocks) {
      // From the smallest last stage on; once it alone is heavier than the best, so is every larger one.
      for (std::int32_t begin = blocks - 1; begin >= stages - 1; --begin) {
        if (partitions.work(begin, blocks) >= best[blocks]) break;
        if (!partitions.fits(stages - 1, begin, blocks)) break;
        best[blocks] = std::min(best[blocks], with_last(blocks, stages, begin));
      }
    }
  }
}

double Balanced::with_last(std::int32_t blocks, std::int32_t stages, std::int32_t begin) const {
  return std::max(heaviest(begin, stages - 1), partitions_.work(begin, blocks));
}

Ends Balanced::ends(std::int32_t blocks, std::int32_t stages) const {
  Ends ends(static_cast<std::size_t>(stages));
  for (; stages > 0; --stages) {
    ends[stages - 1] = blocks;
    const double least = heaviest(blocks, stages);
    std::int32_t begin = stages - 1;
    while (!partitions_.fits(stages - 1, begin, blocks) || with_last(blocks, stages, begin) > least) ++begin;
    blocks = begin;
  }
  return ends;
}

Planned shift_master(const Partitions& partitions, const Balanced& balanced, Simulator& simulator, std::uint64_t effort,
                     const std::function<bool()>& stop) {
  return MasterShift(partitions, balanced, simulator, effort, stop).run();
}

PartitionPlan plan_partition(const Partitions& partitions, const PlannerOptions& options) {
  PartitionPlan plan;
  const PartitionFloor floor(partitions);
  plan.lower_bound = floor.least();
  if (plan.lower_bound == kNever) return plan;
  Simulator simulator(partitions);
  const Balanced balanced(partitions);
  plan.balanced.ends = balanced.ends(partitions.blocks(), partitions.stages());
  plan.balanced.time = simulator.step(plan.balanced.ends).time;
  plan.shifted = shift_master(partitions, balanced, simulator, options.effort / 4, options.stop);
  std::vector<Ends> starts{plan.shifted.ends, floor.ends_of_least()};
  if (partitions.allowed(options.start)) starts.push_back(options.start);
  Planned best;
  for (Ends& ends : starts) {
    Planned from{std::move(ends), 0};
    from.time = simulator.time(from.ends);
    if (from.time > plan.lower_bound) {
      from = BoundaryMoves(partitions, floor, simulator, std::move(from), options.effort / 8, options.stop).run();
    }
    if (from.time < best.time) best = std::move(from);
  }
  const std::uint64_t left = options.effort - std::min(options.effort, simulator.work());
  BranchAndBound proof(partitions, floor, simulator, std::move(best), left, options.stop);
  proof.run(options.good_enough);
  plan.best = proof.best();
  plan.lower_bound = proof.lower_bound();
  plan.work = simulator.work();
  return plan;
}

}  // namespace trimtab::tuner::autopipe
