#include "solvers/autopipe/master_shift.hpp"

#include <deque>
#include <set>
#include <utility>

namespace trimtab::tuner::autopipe {
namespace {

class MasterShift {
 public:
  MasterShift(const Partitions& partitions, const Balanced& balanced, Simulator& simulator, std::uint64_t effort,
              const std::function<bool()>& stop)
      : partitions_(partitions),
        balanced_(balanced),
        simulator_(simulator),
        until_(simulator.work() + effort),
        stop_(stop),
        stages_(partitions.stages()) {}

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
  [[nodiscard]] bool over() const { return simulator_.work() >= until_ || (stop_ && stop_()); }

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

  const Partitions& partitions_;
  const Balanced& balanced_;
  Simulator& simulator_;
  const std::uint64_t until_;
  const std::function<bool()>& stop_;
  const std::int32_t stages_;
  Planned best_;
  std::set<Ends> seen_;
  std::deque<std::pair<Ends, std::int32_t>> queue_;
};

}  // namespace

Planned shift_master(const Partitions& partitions, const Balanced& balanced, Simulator& simulator, std::uint64_t effort,
                     const std::function<bool()>& stop) {
  return MasterShift(partitions, balanced, simulator, effort, stop).run();
}

}  // namespace trimtab::tuner::autopipe
