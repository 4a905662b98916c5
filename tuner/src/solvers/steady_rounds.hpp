#pragma once

// Skips rounds of a pipeline whose effect is known. A round maps the stages' times to later times by sums and maxima.
// While every maximum is decided as it was p rounds ago, and every time has grown over the last p rounds by what it
// grew over the p before, it goes on growing by just that, and the margin of every maximum changes by a constant: so
// the first round in which some maximum is decided otherwise is known, and all rounds before it can be taken at once.
// Exact where all times are whole numbers of one grid (pipeline.hpp). Plain state, reused; no allocation once grown.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace trimtab::tuner {

class SteadyRounds {
 public:
  // For a step of `stages` stages.
  void begin(std::int32_t stages) {
    stages_ = static_cast<std::size_t>(stages);
    periods_ = std::min(kPeriods, stages);
    depth_ = 2 * static_cast<std::size_t>(periods_) + 1;
    if (states_.size() < depth_ * 2 * stages_) {
      states_.resize(depth_ * 2 * stages_);
      waits_.resize(depth_ * 2 * stages_);
    }
    patterns_.resize(std::max(patterns_.size(), depth_));
    seen_ = 0;
  }

  // Where the coming round writes its 2 x stages waits. Remembers the state before it.
  double* next(const double* free, const double* arrivals) {
    double* const state = state_of(seen_);
    std::copy_n(free, stages_, state);
    std::copy_n(arrivals, stages_, state + stages_);
    return waits_of(seen_);
  }

  // After that round: how many further rounds, at most `most`, `free` and `arrivals` have been moved forward by.
  std::int32_t skip(std::int32_t most, double* free, double* arrivals) {
    patterns_[seen_ % depth_] = pattern(waits_of(seen_));
    ++seen_;
    for (std::int32_t period = 1; period <= periods_ && period <= most; ++period) {
      if (!repeats(period) || !grows_evenly(period, free, arrivals)) continue;
      const std::int32_t times = std::min(most / period, decided_alike(period, most / period));
      if (times < 1) continue;
      advance(period, times, free, arrivals);
      seen_ = 0;  // a maximum is decided otherwise soon: what was seen says nothing of what follows
      return times * period;
    }
    return 0;
  }

 private:
  static constexpr std::int32_t kPeriods = 16;

  double* state_of(std::size_t round) { return states_.data() + (round % depth_) * 2 * stages_; }
  double* waits_of(std::size_t round) { return waits_.data() + (round % depth_) * 2 * stages_; }

  // Which inputs were waited for, as one number; different patterns may collide, then decided_alike() says no.
  [[nodiscard]] std::uint64_t pattern(const double* waits) const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 2 * stages_; ++i) bits = bits * 3 + (waits[i] > 0 ? 2 : 1);
    return bits;
  }

  // Whether the last `period` rounds were decided as those before.
  [[nodiscard]] bool repeats(std::int32_t period) {
    const auto p = static_cast<std::size_t>(period);
    if (seen_ < 2 * p) return false;
    for (std::size_t i = 1; i <= p; ++i) {
      if (patterns_[(seen_ - i) % depth_] != patterns_[(seen_ - i - p) % depth_]) return false;
    }
    return true;
  }

  // The state now against those of one and of two periods ago. states_ hold what was before each round.
  [[nodiscard]] bool grows_evenly(std::int32_t period, const double* free, const double* arrivals) {
    const auto p = static_cast<std::size_t>(period);
    const double* const one = state_of(seen_ - p);
    const double* const two = state_of(seen_ - 2 * p);
    for (std::size_t i = 0; i < stages_; ++i) {
      if (free[i] - one[i] != one[i] - two[i]) return false;
      if (arrivals[i] - one[stages_ + i] != one[stages_ + i] - two[stages_ + i]) return false;
    }
    return true;
  }

  // For how many more periods, at most `most`, every maximum is decided as in the last one.
  [[nodiscard]] std::int32_t decided_alike(std::int32_t period, std::int32_t most) {
    const auto p = static_cast<std::size_t>(period);
    for (std::size_t i = 1; i <= p && most > 0; ++i) {
      const double* const now = waits_of(seen_ - i);
      const double* const before = waits_of(seen_ - i - p);
      for (std::size_t w = 0; w < 2 * stages_; ++w) {
        if ((now[w] > 0) != (before[w] > 0)) return 0;
        most = std::min(most, same_sign(now[w], now[w] - before[w], most));
      }
    }
    return most;
  }

  // Largest t up to `most` for which wait + t * change lies on the side of 0 that `wait` lies on, 0 itself included.
  [[nodiscard]] static std::int32_t same_sign(double wait, double change, std::int32_t most) {
    const bool leaves = wait > 0 ? change < 0 : change > 0;
    if (!leaves || wait + most * change == 0 || (wait + most * change > 0) == (wait > 0)) return most;
    auto times = static_cast<std::int32_t>(-wait / change);
    const auto stays = [&](std::int32_t t) { return wait > 0 ? wait + t * change >= 0 : wait + t * change <= 0; };
    while (times > 0 && !stays(times)) --times;
    while (times < most && stays(times + 1)) ++times;
    return times;
  }

  void advance(std::int32_t period, std::int32_t times, double* free, double* arrivals) {
    const double* const one = state_of(seen_ - static_cast<std::size_t>(period));
    for (std::size_t i = 0; i < stages_; ++i) {
      free[i] += times * (free[i] - one[i]);
      arrivals[i] += times * (arrivals[i] - one[stages_ + i]);
    }
  }

  std::size_t stages_ = 0;
  std::int32_t periods_ = 1;
  std::size_t depth_ = 3;  // rounds remembered
  std::size_t seen_ = 0;   // rounds since the begin or the last skip
  std::vector<double> states_;
  std::vector<double> waits_;
  std::vector<std::uint64_t> patterns_;
};

}  // namespace trimtab::tuner
