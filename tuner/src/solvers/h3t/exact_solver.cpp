#include "solvers/h3t/exact_solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "solvers/h3t/label_front.hpp"
#include "solvers/h3t/least_memory.hpp"

namespace trimtab::tuner::h3t {
namespace {

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
  Pass(const StepProgram& program, const std::vector<Relaxation>& bounds, const ExactOptions& options, Ticks known,
       std::size_t width)
      : program_(program), bounds_(bounds), options_(options), known_(known), width_(width) {}

  void run() {
    for (std::int32_t s = 0; s < 2; ++s) fronts_[s].add({label_of(program_.starts()[s]), {}}, 0);
    for (std::int32_t i = 0; i < program_.layers() && !stopped_; ++i) {
      thin(i);
      extend(i);
    }
    if (!stopped_) finish();
  }

  [[nodiscard]] bool stopped() const { return stopped_; }
  // What the pass may have missed takes at least this; never when it missed nothing.
  [[nodiscard]] double dropped() const { return dropped_; }
  [[nodiscard]] std::size_t labels() const { return extended_; }
  [[nodiscard]] bool found() const { return !switching_.empty(); }
  [[nodiscard]] Ticks ticks() const { return ticks_; }
  [[nodiscard]] const Switching& switching() const { return switching_; }

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
      for (auto it = nth; it != current_.end(); ++it) dropped_ = std::min(dropped_, it->bound);
      current_.erase(nth, current_.end());
    }
    std::vector<Kept>& kept = kept_.emplace_back();
    kept.reserve(current_.size());
    for (const Open& open : current_) kept.push_back({open.reached.step, static_cast<std::uint8_t>(open.state)});
    extended_ += current_.size();
  }

  void extend(std::int32_t layer) {
    for (std::uint32_t p = 0; p < current_.size(); ++p) {
      if (p % 256 == 0 && options_.stop && options_.stop()) {
        stopped_ = true;
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
        if (ticks >= ticks_) continue;
        ticks_ = ticks;
        parent = reached.step.parent;
        code = reached.step.code;
      }
    }
    if (ticks_ >= known_) return;
    switching_.resize(static_cast<std::size_t>(program_.layers()));
    for (std::int32_t i = program_.layers() - 1; i >= 0; --i) {
      switching_[i] = switches_of(code);
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
  std::size_t extended_ = 0;
  double dropped_ = std::numeric_limits<double>::infinity();
  bool stopped_ = false;
  Ticks ticks_ = std::numeric_limits<Ticks>::max();
  Switching switching_;
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
    pass.run();
    answer_.labels += pass.labels();
    if (pass.found()) {
      take(pass.switching());
      TRIMTAB_ASSERT(answer_.best.outcome.runtime == pass.ticks(), "a path's time is that of its simulation");
      TRIMTAB_ASSERT(problem_.fits(answer_.best.outcome), "a path's memory is that of its simulation");
    }
    if (pass.stopped()) return false;
    const double missed = pass.dropped();
    const Ticks least = std::isinf(missed) ? answer_.best.outcome.runtime : proven_ticks(missed);
    answer_.bound = std::max(answer_.bound, std::min(least, answer_.best.outcome.runtime));
    note(std::min(width, widest), pass.labels());
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
