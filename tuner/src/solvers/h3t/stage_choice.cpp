#include "solvers/h3t/stage_choice.hpp"

#include <cmath>

#include "solvers/h3t/exact_solver.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr std::size_t kStages = 1024;     // remembered; each some 20 kB for 48 layers and few corners
constexpr std::size_t kAnswers = 64;      // of each
constexpr std::size_t kLabels = 400'000;  // of an exact solver's pass

constexpr Ticks kNever = std::numeric_limits<Ticks>::max();
constexpr double kRounding = 1e-11;   // of doubles in a bound, as a share
constexpr double kSteepness = 1000;   // times the fastest step's time per byte: beyond, the least memory is looked for
constexpr std::size_t kCorners = 64;  // found for one limit

double real(std::int64_t whole) {
  return static_cast<double>(whole);
}

Problem unlimited(const Problem& problem, std::span<const LayerProfile> layers) {
  Problem of = problem;
  of.layers = layers;
  of.device_limit = 0;  // prices are of memory as such
  return of;
}

Prices price_of_last(const StepProgram& program, double price) {
  Prices prices;
  prices.memory.assign(static_cast<std::size_t>(program.layers()), 0);
  prices.memory.back() = price;
  prices.lag.assign(static_cast<std::size_t>(program.layers()), 0);
  return prices;
}

// From `state` to `next` with these switches, or with the fastest where others are better.
const Transition* between(const StepProgram& program, std::int32_t layer, std::int32_t state, std::int32_t next,
                          std::uint8_t code) {
  const Transition* best = nullptr;
  for (const Transition& of : program.of(layer)[state]) {
    if (of.next != next) continue;
    if (of.code == code) return &of;
    if (best == nullptr || of.ticks < best->ticks) best = &of;
  }
  return best;
}

// A stage's least time against its memory limit. Its convex hull is found corner by corner, as limits are asked for:
// each corner is a shortest path with one price of memory in front of the last layer, where levels are highest. The
// hull is a bound (Lagrangian duality); an answer is a corner, or one corner's switches in front and the next one's
// behind. One per thread; what it finds it keeps.
class StageCurve {
 public:
  // The problem's device limit says nothing here. Keeps the layers.
  StageCurve(const Problem& problem, TransitionTable& table)
      : layers_(problem.layers.begin(), problem.layers.end()),
        problem_(unlimited(problem, layers_)),
        program_(problem_, &table) {
    corners_.push_back(corner_at(0));
    steepest_ = kSteepness * corners_.front().ticks / std::max(1.0, corners_.front().memory);
    Corner least = corner_at(steepest_);
    if (least.memory < corners_.front().memory) corners_.push_back(std::move(least));
  }

  StageCurve(const StageCurve&) = delete;
  StageCurve& operator=(const StageCurve&) = delete;

  [[nodiscard]] StageChoice at(Bytes device_limit) {
    Best best{kNever, {}};
    const std::size_t within = first_within(real(device_limit));
    if (within < corners_.size()) consider(corners_[within], device_limit, best);
    if (within > 0 && within < corners_.size()) {
      consider_crossings(corners_[within], corners_[within - 1], device_limit, best);
      consider_crossings(corners_[within - 1], corners_[within], device_limit, best);
    }
    // A corner may need more in front of an earlier layer than in front of the last one.
    for (std::size_t i = within + 1; i < corners_.size() && best.ticks == kNever; ++i) {
      consider(corners_[i], device_limit, best);
    }
    if (best.ticks == kNever) consider_least(device_limit, best);
    StageChoice choice;
    choice.feasible = best.ticks != kNever;
    if (!choice.feasible) {
      choice.best = solution_of(problem_, least_.empty() ? Switching(layers_.size(), problem_.allowed) : least_);
      return choice;
    }
    choice.best = solution_of(problem_, best.switching);
    const double bound = bound_at(real(device_limit), within);
    choice.bound = std::min(best.ticks, static_cast<Ticks>(std::ceil(bound * (1 - kRounding) - 1e-3)));
    return choice;
  }

  // Paths over the layers that were looked for.
  [[nodiscard]] std::uint64_t paths() const { return paths_; }

 private:
  using Path = std::vector<const Transition*>;
  struct Corner {
    Path path;
    std::vector<Label> labels;  // at every boundary
    std::vector<std::uint8_t> states;
    double ticks = 0;         // without waits for parameters that are written back, but the last layer's
    double memory = 0;        // of the last layer's segments
    bool edge_known = false;  // no corner lies between this one and the next
  };
  struct Best {
    Ticks ticks = 0;
    Switching switching;
  };

  [[nodiscard]] Corner corner_at(double price) {
    ++paths_;
    const Relaxation relaxation(program_, price_of_last(program_, price));
    return corner_of(relaxation.start(), relaxation.path());
  }

  [[nodiscard]] Corner corner_of(std::int32_t start, Path path) const {
    Corner corner;
    corner.labels.push_back(label_of(program_.starts()[static_cast<std::size_t>(start)]));
    corner.states.push_back(static_cast<std::uint8_t>(start));
    for (std::size_t i = 0; i < path.size(); ++i) {
      corner.labels.push_back(extended(program_, static_cast<std::int32_t>(i), corner.labels.back(), *path[i]));
      corner.states.push_back(path[i]->next);
    }
    const Label& last = corner.labels[path.size() - 1];
    const Transition& by = *path.back();
    corner.ticks = real(last.ticks + by.ticks + by.write_back + program_.optimizer_sum());
    corner.memory = real(last.level + by.peak + by.resident);
    corner.path = std::move(path);
    return corner;
  }

  // The first corner that needs no more than the limit; more are found first.
  [[nodiscard]] std::size_t first_within(double limit) {
    const auto within = [&] {
      const auto at = std::partition_point(corners_.begin(), corners_.end(),
                                           [limit](const Corner& corner) { return corner.memory > limit; });
      return static_cast<std::size_t>(at - corners_.begin());
    };
    std::size_t at = within();
    for (std::size_t found = 0; found < kCorners; ++found, at = within()) {
      if (at == 0 || at == corners_.size() || corners_[at - 1].edge_known) break;
      Corner& before = corners_[at - 1];
      const Corner& after = corners_[at];
      const double price = (after.ticks - before.ticks) / (before.memory - after.memory);
      Corner between = corner_at(price);
      const double gained = before.ticks + price * before.memory - between.ticks - price * between.memory;
      const bool new_corner =
          gained > kRounding * before.ticks + 1e-3 && between.memory < before.memory && between.memory > after.memory;
      if (new_corner) {
        corners_.insert(corners_.begin() + static_cast<std::ptrdiff_t>(at), std::move(between));
      } else {
        before.edge_known = true;
      }
    }
    return at;
  }

  [[nodiscard]] double bound_at(double limit, std::size_t within) const {
    if (within == 0) return corners_.front().ticks;
    const Corner& before = corners_[within - 1];
    if (within == corners_.size()) return before.ticks + steepest_ * (before.memory - limit);
    if (!before.edge_known) return before.ticks;
    // Nothing is cheaper than the two corners at the price between them.
    const Corner& after = corners_[within];
    const double price = (after.ticks - before.ticks) / (before.memory - after.memory);
    return before.ticks + price * (before.memory - limit);
  }

  [[nodiscard]] bool fits(const Label& end, Bytes limit) const {
    return end.peak <= limit && end.hidden <= program_.hidden_limit();
  }

  void consider(const Corner& corner, Bytes limit, Best& best) const {
    const Label& end = corner.labels.back();
    const Ticks ticks = whole_ticks(program_, end);
    if (!fits(end, limit) || ticks >= best.ticks) return;
    best.ticks = ticks;
    best.switching.clear();
    for (const Transition* by : corner.path) best.switching.push_back(switches_of(by->code));
  }

  // Up to a layer one corner's switches, from there on the other's.
  void consider_crossings(const Corner& front, const Corner& behind, Bytes limit, Best& best) const {
    const auto layers = static_cast<std::size_t>(program_.layers());
    std::size_t crossing = 0;
    std::array<const Transition*, 2> bridge{};
    for (std::size_t k = 1; k < layers; ++k) {
      // The layer in front of the crossing sees another neighbour, and so does the one behind it.
      const auto kind = static_cast<std::uint8_t>(front.states[k] & ~1U);
      const std::int32_t middle = kind | (behind.states[k] & 1U);
      const Transition* first =
          between(program_, static_cast<std::int32_t>(k) - 1, front.states[k - 1], middle, front.path[k - 1]->code);
      const Transition* second = first == nullptr ? nullptr
                                                  : between(program_, static_cast<std::int32_t>(k), middle,
                                                            behind.states[k + 1], behind.path[k]->code);
      if (second == nullptr) continue;
      Label label = extended(program_, static_cast<std::int32_t>(k) - 1, front.labels[k - 1], *first);
      label = extended(program_, static_cast<std::int32_t>(k), label, *second);
      for (std::size_t i = k + 1; i < layers; ++i) {
        label = extended(program_, static_cast<std::int32_t>(i), label, *behind.path[i]);
      }
      const Ticks ticks = whole_ticks(program_, label);
      if (!fits(label, limit) || ticks >= best.ticks) continue;
      best.ticks = ticks;
      crossing = k;
      bridge = {first, second};
    }
    if (crossing == 0) return;
    best.switching.resize(layers);
    for (std::size_t i = 0; i < layers; ++i) {
      const Transition* by = i < crossing ? front.path[i] : behind.path[i];
      if (i + 1 == crossing) by = bridge[0];
      if (i == crossing) by = bridge[1];
      best.switching[i] = switches_of(by->code);
    }
  }

  void consider_least(Bytes limit, Best& best) {
    if (!least_known_) least_ = least_memory(program_);
    least_known_ = true;
    if (least_.empty()) return;
    const Solution least = solution_of(problem_, least_);
    const bool fitting = least.outcome.peak <= limit && least.outcome.host <= problem_.host_limit;
    if (!fitting || least.outcome.runtime >= best.ticks) return;
    best = {least.outcome.runtime, least.switches};
  }

  std::vector<LayerProfile> layers_;
  Problem problem_;
  StepProgram program_;
  std::vector<Corner> corners_;  // ascending in ticks, descending in memory
  double steepest_ = 0;          // ns per byte, the highest price that was asked for
  std::uint64_t paths_ = 0;
  Switching least_;  // with the least peak, once it was needed
  bool least_known_ = false;
};

}  // namespace

struct StageSwitches::Remembered {
  explicit Remembered(const Problem& problem, TransitionTable& table) : curve(problem, table) {}
  StageCurve curve;
  std::uint64_t counted = 0;             // of the curve's paths
  std::map<Bytes, StageChoice> answers;  // by device limit
};

StageSwitches::Remembered& StageSwitches::remembered(const Problem& problem) {
  key_.assign({problem.microbatches, problem.in_flight, problem.host_limit, static_cast<std::int64_t>(problem.fabric),
               code_of(problem.allowed)});
  const std::size_t head = key_.size();
  for (const LayerProfile& layer : problem.layers) {
    const std::int32_t number = table_.number_of(layer);
    const bool repeated = key_.size() > head && key_[key_.size() - 2] == number;
    if (repeated) {
      ++key_.back();
    } else {
      key_.insert(key_.end(), {number, 1});
    }
  }
  const auto found = stages_.find(key_);
  if (found != stages_.end()) return *found->second;
  if (stages_.size() >= kStages) stages_.clear();
  return *stages_.emplace(key_, std::make_shared<Remembered>(problem, table_)).first->second;
}

const StageChoice& StageSwitches::choose(const Problem& problem) {
  const std::uint64_t simulated = table_.simulated();
  Remembered& of = remembered(problem);
  evaluations_ += (table_.simulated() - simulated) * kSynchronizedCombinations;
  const auto found = of.answers.find(problem.device_limit);
  if (found != of.answers.end()) return found->second;
  if (of.answers.size() >= kAnswers) of.answers.clear();
  StageChoice choice = of.curve.at(problem.device_limit);
  evaluations_ += of.curve.paths() - std::exchange(of.counted, of.curve.paths());
  if (choice.feasible && choice.gap() > gap_) choice = narrowed(problem, std::move(choice));
  if (choice.feasible && choice.gap() > gap_ && stop_ && stop_()) return unfinished_ = std::move(choice);
  return of.answers.emplace(problem.device_limit, std::move(choice)).first->second;
}

StageChoice StageSwitches::narrowed(const Problem& problem, StageChoice choice) {
  ExactOptions options;
  options.gap = gap_;
  options.stop = stop_;
  options.most_labels = kLabels;
  ExactAnswer answer = solve_exactly(problem, options);
  evaluations_ += answer.paths + answer.labels / problem.layers.size();
  choice.bound = std::max(choice.bound, answer.bound);
  if (answer.feasible && answer.best.outcome.runtime < choice.best.outcome.runtime) {
    choice.best = std::move(answer.best);
  }
  return choice;
}

}  // namespace trimtab::tuner::h3t
