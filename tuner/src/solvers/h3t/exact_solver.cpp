#include "solvers/h3t/exact_solver.hpp"

#include <cmath>

#include "base/check.hpp"
#include "solvers/h3t/relaxation.hpp"

namespace trimtab::tuner::h3t {
namespace {

// How many of the kept labels with more numbers than three a new one is compared with; more may be kept than needed.
constexpr std::size_t kCompared = 256;

struct Step {  // how a label came about
  std::uint32_t parent = 0;
  std::uint8_t code = 0;  // of the layer's switches
};

struct Reached {
  Label label;
  Step step;
};

// Whether every completion of `other` is matched by `label` with the same one: no later, with no more memory. What is
// written back in the end takes max(lag - K, M) for some K and M >= 0, which is why times plus lags are compared.
bool dominates(const Label& label, const Label& other) {
  return label.ticks <= other.ticks && label.level <= other.level && label.peak <= other.peak &&
         label.hidden <= other.hidden && label.ticks + label.lag <= other.ticks + other.lag;
}

// The labels of one boundary and state, without dominated ones.
class LabelFront {
 public:
  void clear() {
    labels_.clear();
    filtered_ = 0;
  }
  // May keep dominated labels until filter().
  void add(const Reached& reached, Bytes future_peak) {
    labels_.push_back(reached);
    if (labels_.size() > 2 * filtered_ + kPending) filter(future_peak);
  }
  // `future_peak`: above a label's level, what any completion comes to.
  void filter(Bytes future_peak) {
    std::ranges::sort(labels_, [](const Reached& a, const Reached& b) {
      return std::tie(a.label.level, a.label.ticks, a.label.peak, a.label.hidden, a.label.lag, a.step.parent,
                      a.step.code) < std::tie(b.label.level, b.label.ticks, b.label.peak, b.label.hidden, b.label.lag,
                                              b.step.parent, b.step.code);
    });
    // Of labels with ascending levels whose peak and lag say nothing of their own.
    Staircase plain;
    std::vector<Label> others;
    std::size_t kept = 0;
    for (const Reached& reached : labels_) {
      const Label& label = reached.label;
      if (plain.covers(label.ticks, label.hidden)) continue;
      const bool is_plain = label.lag == 0 && label.peak <= label.level + future_peak;
      const std::size_t from = others.size() > kCompared ? others.size() - kCompared : 0;
      const bool dominated = std::any_of(others.begin() + static_cast<std::ptrdiff_t>(from), others.end(),
                                         [&label](const Label& other) { return dominates(other, label); });
      if (dominated) continue;
      if (is_plain) {
        plain.insert(label.ticks, label.hidden);
      } else {
        others.push_back(label);
      }
      labels_[kept++] = reached;
    }
    labels_.resize(kept);
    filtered_ = kept;
  }

  [[nodiscard]] const std::vector<Reached>& labels() const { return labels_; }

 private:
  static constexpr std::size_t kPending = 1 << 14;
  std::vector<Reached> labels_;
  std::size_t filtered_ = 0;
};

constexpr std::int32_t kRounds = 160;  // of the relaxation
constexpr std::size_t kFirstWidth = 256;
constexpr std::size_t kWidening = 16;
constexpr double kRounding = 1e-11;  // of doubles in a bound, as a share

using Fronts = std::array<LabelFront, kStates>;

// A time that is proven, in whole ticks.
Ticks proven_ticks(double bound) {
  return static_cast<Ticks>(std::ceil(bound - kRounding * std::abs(bound) - 1e-3));
}

class Pass {
 public:
  struct Result {
    bool stopped = false;
    // What the pass may have missed takes at least this; never when it missed nothing.
    double dropped = std::numeric_limits<double>::infinity();
    std::size_t labels = 0;  // that were extended
    Ticks ticks = std::numeric_limits<Ticks>::max();
    Switching switching;  // empty where nothing was found
  };

  Pass(const StepProgram& program, const std::vector<Relaxation>& bounds, const ExactOptions& options, Ticks known,
       std::size_t width)
      : program_(program), bounds_(bounds), options_(options), known_(known), width_(width) {}

  Result run() {
    for (std::int32_t s = 0; s < 2; ++s) fronts_[s].add({label_of(program_.starts()[s]), {}}, 0);
    for (std::int32_t i = 0; i < program_.layers() && !result_.stopped; ++i) {
      thin(i);
      extend(i);
    }
    if (!result_.stopped) finish();
    return std::move(result_);
  }

 private:
  struct Kept {  // enough to walk back
    Step step;
    std::uint8_t state = 0;
  };

  [[nodiscard]] double bound(std::int32_t boundary, std::int32_t state, const Label& label) const {
    double best = 0;
    for (const Relaxation& relaxation : bounds_) {
      best = std::max(best, relaxation.bound(boundary, state, label));
      if (best > limit_) break;
    }
    return best;
  }

  // Keeps the most promising labels where there are too many, and moves them to `current_`.
  void thin(std::int32_t boundary) {
    current_.clear();
    for (std::int32_t s = 0; s < kStates; ++s) {
      fronts_[s].filter(program_.future(boundary, s).peak);
      for (const Reached& reached : fronts_[s].labels())
        current_.push_back({reached, bound(boundary, s, reached.label), s});
      fronts_[s].clear();
    }
    if (current_.size() > width_) {
      const auto nth = current_.begin() + static_cast<std::ptrdiff_t>(width_);
      std::nth_element(current_.begin(), nth, current_.end(),
                       [](const Open& a, const Open& b) { return a.bound < b.bound; });
      for (auto it = nth; it != current_.end(); ++it) result_.dropped = std::min(result_.dropped, it->bound);
      current_.erase(nth, current_.end());
    }
    std::vector<Kept>& kept = kept_.emplace_back();
    kept.reserve(current_.size());
    for (const Open& open : current_) kept.push_back({open.reached.step, static_cast<std::uint8_t>(open.state)});
    result_.labels += current_.size();
  }

  void extend(std::int32_t layer) {
    for (std::uint32_t p = 0; p < current_.size(); ++p) {
      if (p % 256 == 0 && options_.stop && options_.stop()) {
        result_.stopped = true;
        return;
      }
      const Open& open = current_[p];
      for (const Transition& by : program_.of(layer)[open.state]) try_transition(layer, p, open.reached.label, by);
    }
  }

  void try_transition(std::int32_t layer, std::uint32_t parent, const Label& from, const Transition& by) {
    Label to = extended(program_, layer, from, by);
    const Future& then = program_.future(layer + 1, by.next);
    const Bytes limit = program_.device_limit();
    if (!then.possible || to.level + then.peak_resident > limit || to.peak + then.resident > limit) return;
    if (to.hidden > program_.hidden_limit()) return;
    // Neither do fewer hidden bytes than what leaves room for all that may come.
    if (program_.host_matters()) {
      to.hidden = std::max(to.hidden, program_.hidden_limit() - program_.most_hidden(layer + 1));
    }
    // A peak that no resident to come can bring over the limit says nothing more, nor one below what comes anyway.
    const Bytes certain = to.level + then.peak;
    if (layer + 1 < program_.layers()) {
      const bool settled = to.peak + program_.most_residents(layer + 1) <= limit;
      if (settled || to.peak < certain) to.peak = certain;
    }
    if (bound(layer + 1, by.next, to) > limit_) return;
    fronts_[by.next].add({to, {parent, by.code}}, then.peak);
  }

  void finish() {
    std::uint32_t parent = 0;
    std::uint8_t code = 0;
    for (const LabelFront& front : fronts_) {
      for (const Reached& reached : front.labels()) {
        const Ticks ticks = whole_ticks(program_, reached.label);
        if (ticks >= result_.ticks) continue;
        result_.ticks = ticks;
        parent = reached.step.parent;
        code = reached.step.code;
      }
    }
    if (result_.ticks >= known_) return;
    result_.switching.resize(static_cast<std::size_t>(program_.layers()));
    for (std::int32_t i = program_.layers() - 1; i >= 0; --i) {
      result_.switching[i] = switches_of(code);
      const Kept& kept = kept_[i][parent];
      parent = kept.step.parent;
      code = kept.step.code;
    }
  }

  struct Open {
    Reached reached;
    double bound = 0;
    std::int32_t state = 0;
  };

  const StepProgram& program_;
  const std::vector<Relaxation>& bounds_;
  const ExactOptions& options_;
  Ticks known_;
  std::size_t width_;
  // Times are whole: what is faster than the known step takes a tick less.
  double limit_ = static_cast<double>(known_ - 1) * (1 + kRounding) + 1e-3;
  Fronts fronts_;
  std::vector<Open> current_;
  std::vector<std::vector<Kept>> kept_;
  Result result_;
};

class Solver {
 public:
  Solver(const Problem& problem, const ExactOptions& options, const std::function<void(const ExactPass&)>& seen)
      : problem_(problem), options_(options), seen_(seen), program_(problem) {}

  ExactAnswer run() {
    answer_.best = solution_of(problem_, Switching(problem_.layers.size(), problem_.allowed));
    if (!problem_.fits(answer_.best.outcome)) {
      const Switching least = least_memory(program_);
      if (!least.empty()) answer_.best = solution_of(problem_, least);
    }
    answer_.feasible = problem_.fits(answer_.best.outcome);
    if (!answer_.feasible) return std::move(answer_);
    const auto stop = [this] { return options_.stop && options_.stop(); };
    RelaxedStep relaxed = relax(program_, answer_.best.outcome.runtime, kRounds, stop);
    answer_.paths = relaxed.paths;
    if (relaxed.bounds.empty()) return std::move(answer_);
    if (!relaxed.path.empty()) take(relaxed.path);
    answer_.bound = proven_ticks(relaxed.bounds.front().bound());
    note(0, 0);
    for (std::size_t width = kFirstWidth; !ended(); width *= kWidening) {
      if (!widen(relaxed.bounds, width)) break;
    }
    static_cast<void>(ended());
    return std::move(answer_);
  }

 private:
  [[nodiscard]] bool ended() {
    answer_.bound = std::min(answer_.bound, answer_.best.outcome.runtime);
    answer_.proven = answer_.bound == answer_.best.outcome.runtime;
    return answer_.proven || answer_.gap() < options_.gap || (options_.stop && options_.stop());
  }

  // False where a pass ended early or may not have more labels.
  bool widen(const std::vector<Relaxation>& bounds, std::size_t width) {
    const std::size_t widest = options_.most_labels / (problem_.layers.size() + 1);
    Pass pass(program_, bounds, options_, answer_.best.outcome.runtime, std::min(width, widest));
    const Pass::Result found = pass.run();
    answer_.labels += found.labels;
    if (!found.switching.empty()) {
      take(found.switching);
      TRIMTAB_ASSERT(answer_.best.outcome.runtime == found.ticks, "a path's time is that of its simulation");
      TRIMTAB_ASSERT(problem_.fits(answer_.best.outcome), "a path's memory is that of its simulation");
    }
    if (found.stopped) return false;
    const double missed = found.dropped;
    const Ticks least = std::isinf(missed) ? answer_.best.outcome.runtime : proven_ticks(missed);
    answer_.bound = std::max(answer_.bound, std::min(least, answer_.best.outcome.runtime));
    note(std::min(width, widest), found.labels);
    return width < widest;
  }

  void take(const Switching& switching) {
    Solution solution = solution_of(problem_, switching);
    if (solution.outcome.runtime < answer_.best.outcome.runtime) answer_.best = std::move(solution);
  }

  void note(std::size_t width, std::size_t labels) {
    answer_.bound = std::min(answer_.bound, answer_.best.outcome.runtime);
    answer_.passes.push_back({width, labels, answer_.best.outcome.runtime, answer_.bound});
    if (seen_) seen_(answer_.passes.back());
  }

  const Problem& problem_;
  const ExactOptions& options_;
  const std::function<void(const ExactPass&)>& seen_;
  StepProgram program_;
  ExactAnswer answer_;
};

}  // namespace

ExactAnswer solve_exactly(const Problem& problem, const ExactOptions& options,
                          const std::function<void(const ExactPass&)>& seen) {
  return Solver(problem, options, seen).run();
}

}  // namespace trimtab::tuner::h3t
