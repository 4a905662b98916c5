#include "papers/h3t/published_solvers.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/random.hpp"
#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {

namespace {

bool stops(const std::function<bool()>& stop) {
  return stop && stop();
}

// Keeps the fastest of what fits.
class Fastest {
 public:
  explicit Fastest(const Problem& problem) : problem_(problem), simulator_(problem.layers, problem.fabric) {}

  void consider(const Switching& switches) {
    const StepOutcome outcome = outcome_of(problem_, simulator_, switches);
    if (!problem_.fits(outcome) || (best_ && best_->outcome.runtime <= outcome.runtime)) return;
    best_ = Solution{switches, outcome};
  }
  [[nodiscard]] std::optional<Solution> take() { return std::move(best_); }

 private:
  const Problem& problem_;
  SegmentSimulator simulator_;
  std::optional<Solution> best_;
};

constexpr std::int32_t kGridStates = 64;  // partition, lazy and offload of two layers
constexpr std::int32_t kNobody = -1;
constexpr Bytes kLargest = Bytes{1} << 50;  // of a limit, so that it can be counted in cells

struct Prefix {
  Ticks runtime = 0;
  std::int32_t parent = kNobody;
  std::int32_t level = 0, peak = 0;  // on the grid
  LayerSwitches before;              // of the layer before the last one of the prefix: decided
  LayerSwitches last;                // partition, lazy and offload alone
};

LayerSwitches of_three(unsigned bits) {
  LayerSwitches switches;
  switches.partition_parameters = (bits & 4U) != 0;
  switches.lazy_prefetch = (bits & 2U) != 0;
  switches.offload_hidden = (bits & 1U) != 0;
  return switches;
}

std::int32_t three_of(const LayerSwitches& switches) {
  return (switches.partition_parameters ? 4 : 0) + (switches.lazy_prefetch ? 2 : 0) + (switches.offload_hidden ? 1 : 0);
}

// The other three, in the published order.
LayerSwitches completed(LayerSwitches switches, unsigned bits) {
  switches.rematerialize = (bits & 4U) != 0;
  switches.economical_forward = (bits & 2U) != 0;
  switches.economical_backward = (bits & 1U) != 0;
  return switches;
}

// What a simulated piece came to.
struct Piece {
  Ticks runtime = 0;
  Bytes delta = 0, peak = 0;
};

class PublishedProgram {
 public:
  PublishedProgram(const Problem& problem, std::int32_t grid, const std::function<bool()>& stop)
      : problem_(problem),
        grid_(grid),
        stop_(stop),
        simulator_(problem.layers, problem.fabric),
        window_(problem.layers.size()) {
    residents_after_.assign(problem.layers.size() + 1, 0);
    for (std::int32_t i = problem.count() - 1; i >= 0; --i) {
      residents_after_[i] = residents_after_[i + 1] + problem.layers[i].partitioned_parameters;
    }
  }

  std::optional<Solution> run() {
    start();
    for (std::int32_t i = 1; i < problem_.count(); ++i) {
      if (!advance(i)) return std::nullopt;
    }
    return finish();
  }

 private:
  [[nodiscard]] std::size_t cell(std::int32_t state, std::int32_t level, std::int32_t peak) const {
    const std::size_t side = static_cast<std::size_t>(grid_) + 1;
    return (static_cast<std::size_t>(state) * side + static_cast<std::size_t>(level)) * side +
           static_cast<std::size_t>(peak);
  }
  [[nodiscard]] std::int32_t up(Bytes bytes) const {
    return grid_ - static_cast<std::int32_t>((limit_ - std::max<Bytes>(bytes, 0)) * grid_ / limit_);
  }
  [[nodiscard]] Bytes down(std::int32_t at) const { return limit_ * at / grid_; }

  void clear_cells() { cells_.assign(cell(kGridStates, 0, 0), kNobody); }

  void put(std::int32_t state, Bytes level, Bytes peak, std::int32_t layer, Prefix prefix) {
    if (peak <= level || peak + residents_after_[layer + 1] <= limit_) peak = 0;
    if (peak > limit_ || level > limit_) return;
    prefix.level = up(level);
    prefix.peak = up(peak);
    std::int32_t& at = cells_[cell(state, prefix.level, prefix.peak)];
    if (at != kNobody && prefixes_[at].runtime <= prefix.runtime) return;
    at = static_cast<std::int32_t>(prefixes_.size());
    prefixes_.push_back(std::move(prefix));
  }

  [[nodiscard]] Bytes resident(std::int32_t layer, const LayerSwitches& switches) const {
    return switches.lazy_prefetch ? 0 : problem_.layers[layer].partitioned_parameters;
  }

  template <typename Run>
  Piece piece(Run&& run) {
    simulator_.begin(window_, 0);
    run();
    simulator_.synchronize();
    return {simulator_.runtime(), simulator_.delta(), simulator_.peak()};
  }

  void start() {
    clear_cells();
    // The published code reads the gradients of the layer that a loop before ended with.
    const LayerProfile& stale = problem_.layers[problem_.count() > 1 ? 1 : 0];
    for (unsigned bits = 0; bits < 8; ++bits) {
      window_[0] = of_three(bits);
      const Piece forward = piece([&] { simulator_.forward_head(0); });
      const Piece backward = piece([&] { simulator_.backward_tail(0); });
      const Bytes resident_bytes = resident(0, window_[0]);
      const Bytes level = forward.delta + resident_bytes;
      const Bytes peak = std::max(forward.peak + resident_bytes, backward.peak + level - stale.partitioned_gradients);
      put(three_of(window_[0]), level, peak, 0, {forward.runtime + backward.runtime, kNobody, 0, 0, {}, window_[0]});
    }
  }

  // Drops what a neighbour on the grid is no slower than; in the published order.
  [[nodiscard]] std::vector<std::int32_t> retained() {
    std::vector<std::int32_t> kept;
    for (std::int32_t state = 0; state < kGridStates; ++state) {
      for (std::int32_t level = 0; level <= grid_; ++level) {
        for (std::int32_t peak = 0; peak <= grid_; ++peak) {
          std::int32_t& at = cells_[cell(state, level, peak)];
          if (at == kNobody) continue;
          const std::int32_t below = level > 0 ? cells_[cell(state, level - 1, peak)] : kNobody;
          const std::int32_t beside = peak > 0 ? cells_[cell(state, level, peak - 1)] : kNobody;
          std::int32_t other = below == kNobody ? beside : below;
          if (below != kNobody && beside != kNobody && prefixes_[below].runtime >= prefixes_[beside].runtime) {
            other = beside;
          }
          if (other != kNobody && prefixes_[at].runtime >= prefixes_[other].runtime) {
            at = other;
          } else {
            kept.push_back(at);
          }
        }
      }
    }
    return kept;
  }

  struct Pieces {
    Piece forward, backward;
    Ticks optimizer = 0;
    bool known = false;
  };

  // The segments of layer i - 1 with the decided switches around it, remembered within a layer.
  const Pieces& pieces(std::int32_t i) {
    const std::size_t before = i >= 2 ? code_of(window_[i - 2]) : 0;
    const std::size_t key =
        (before * 128 + code_of(window_[i - 1])) * 8 + static_cast<std::size_t>(three_of(window_[i]));
    Pieces& of = known_[key];
    if (of.known) return of;
    of.known = true;
    of.forward = piece([&] { simulator_.forward(i - 1); });
    of.backward = piece([&] { simulator_.backward(i - 1); });
    of.optimizer = piece([&] {
                     if (i >= 2) simulator_.write_back(i - 2);
                     simulator_.optimizer_step(i - 1);
                   }).runtime;
    return of;
  }

  bool advance(std::int32_t i) {
    const std::vector<std::int32_t> before = retained();
    clear_cells();
    known_.clear();
    for (const std::int32_t from : before) {
      if (stop_ && stop_()) return false;
      for (unsigned bits = 0; bits < 8; ++bits) extend(i, from, bits);
    }
    return true;
  }

  void extend(std::int32_t i, std::int32_t from, unsigned bits) {
    const Prefix prefix = prefixes_[from];
    if (i >= 2) window_[i - 2] = prefix.before;
    window_[i - 1] = completed(prefix.last, bits);
    if (!window_[i - 1].valid()) return;
    const LayerProfile& layer = problem_.layers[i];
    for (unsigned next = 0; next < 8; ++next) {
      window_[i] = of_three(next);
      const Pieces& of = pieces(i);
      const Bytes resident_bytes = resident(i, window_[i]);
      const Bytes level = down(prefix.level) + resident_bytes + of.forward.delta;
      Bytes peak = std::max(down(prefix.peak), of.forward.peak + down(prefix.level)) + resident_bytes;
      Bytes backward_level = level + 2 * layer.input + layer.gathered_gradients;
      if (window_[i - 1].rematerialize && !window_[i - 1].offload_hidden) {
        backward_level -= problem_.layers[i - 1].input;
      }
      peak = std::max(peak, of.backward.peak + backward_level);
      const Ticks runtime = prefix.runtime + of.forward.runtime + of.backward.runtime + of.optimizer;
      put(three_of(window_[i - 1]) * 8 + static_cast<std::int32_t>(next), level, peak, i,
          {runtime, from, 0, 0, window_[i - 1], window_[i]});
    }
  }

  [[nodiscard]] std::optional<Solution> finish() {
    const std::int32_t last = problem_.count() - 1;
    std::int32_t best = kNobody;
    Ticks runtime = 0;
    LayerSwitches best_last;
    for (const std::int32_t from : retained()) {
      const Prefix& prefix = prefixes_[from];
      for (unsigned bits = 0; bits < 8; ++bits) {
        const LayerSwitches own = completed(prefix.last, bits);
        if (!own.valid()) continue;
        if (last >= 1) window_[last - 1] = prefix.before;
        window_[last] = own;
        const Piece of = piece([&] {
          simulator_.forward(last);
          simulator_.forward_tail(last);
          simulator_.synchronize();
          simulator_.backward_head(last);
          simulator_.backward(last);
        });
        const Bytes level = down(prefix.level);
        if (of.peak + level > limit_ || of.delta + level > limit_) continue;
        const Ticks optimizer = piece([&] {
                                  if (last >= 1) simulator_.write_back(last - 1);
                                  simulator_.optimizer_step(last);
                                  simulator_.write_back(last);
                                }).runtime;
        const Ticks whole = prefix.runtime + of.runtime + optimizer;
        if (best != kNobody && runtime <= whole) continue;
        best = from;
        runtime = whole;
        best_last = own;
      }
    }
    if (best == kNobody) return std::nullopt;
    Switching switches(problem_.layers.size());
    switches.back() = best_last;
    for (std::int32_t i = last, at = best; i > 0; --i, at = prefixes_[at].parent)
      switches[i - 1] = prefixes_[at].before;
    return solution_of(problem_, std::move(switches));
  }

  const Problem& problem_;
  std::int32_t grid_;
  Bytes limit_ = std::min(problem_.device_limit, kLargest);
  const std::function<bool()>& stop_;
  SegmentSimulator simulator_;
  Switching window_;
  std::vector<Bytes> residents_after_;  // of layer i and later ones
  std::vector<std::int32_t> cells_;
  std::vector<Prefix> prefixes_;
  std::unordered_map<std::size_t, Pieces> known_;
};

}  // namespace

std::optional<Solution> solve_by_sampling(const Problem& problem, std::uint64_t seed, std::int32_t samples,
                                          const std::function<bool()>& stop) {
  Random random(seed);
  Fastest fastest(problem);
  Switching switches(problem.layers.size());
  for (std::int32_t sample = 0; sample < samples && !stops(stop); ++sample) {
    for (LayerSwitches& of : switches) of = all_combinations()[random.below(kCombinations)];
    fastest.consider(switches);
  }
  return fastest.take();
}

std::optional<Solution> solve_greedily(const Problem& problem, const std::function<bool()>& stop) {
  Fastest fastest(problem);
  const std::size_t count = problem.layers.size();
  fastest.consider(Switching(count, kAllOn));
  for (std::size_t flexible = 1; flexible <= count && !stops(stop); ++flexible) {
    const std::size_t distance = count / flexible;
    for (const LayerSwitches& combination : all_combinations()) {
      Switching switches(count, kAllOn);
      for (std::size_t k = 0; k < flexible; ++k) switches[k * distance] = combination;
      fastest.consider(switches);
    }
  }
  return fastest.take();
}

std::optional<Solution> best_uniform(const Problem& problem) {
  Fastest fastest(problem);
  for (const LayerSwitches& combination : all_combinations()) {
    fastest.consider(Switching(problem.layers.size(), combination));
  }
  return fastest.take();
}

Solution freed(const Problem& problem, Solution from, const std::function<bool()>& stop) {
  SegmentSimulator simulator(problem.layers, problem.fabric);
  Solution best = std::move(from);
  // Layers since the last gain: once around without one is the end.
  std::size_t unchanged = 0;
  for (std::size_t i = 0; unchanged < best.switches.size(); i = (i + 1) % best.switches.size()) {
    if (stop && stop()) return best;
    ++unchanged;
    Switching tried = best.switches;
    for (const LayerSwitches& combination : all_combinations()) {
      if (!is_within(combination, problem.allowed)) continue;
      tried[i] = combination;
      const StepOutcome outcome = outcome_of(problem, simulator, tried);
      if (!problem.fits(outcome) || outcome.runtime >= best.outcome.runtime) continue;
      best = {tried, outcome};
      unchanged = 0;
    }
  }
  return best;
}

std::optional<Solution> solve_by_published_program(const Problem& problem, std::int32_t grid,
                                                   const std::function<bool()>& stop) {
  return PublishedProgram(problem, grid, stop).run();
}

}  // namespace trimtab::tuner::h3t
