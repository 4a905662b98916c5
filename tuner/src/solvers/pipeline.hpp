#pragma once

// Event-driven simulation of a pipeline step, exact for the reference trainer's rules: each stage runs its actions in
// schedule order; an action starts when its stage is free and its input has arrived; input arrives one transfer time
// after the sender's action ended; sending blocks nobody. No allocation once `PipelineScratch` has grown. Pure.
//
// 1F1B (PipeDream-Flush): stage s runs w = S - s - 1 forwards, then forward and backward in turn, then the rest of the
// backwards. GPipe is the same with w = all forwards.
//
// A sliced warm-up (AutoPipe, Liu et al. 2022, section III-C) fills the pipeline sooner: of its first k microbatches,
// each is forwarded in two halves on the stages that run it before or as their first forward of the steady rounds
// (microbatch j up to w), and sent in halves to stages that do the same (j below w), else whole.
//
// A stage may have a second clock, its host's, which issues the stage's passes in their order, one after the other, and
// waits for nobody within a step. A pass begins no earlier than its issuing and ends no earlier than that has ended.
//
// Times are first rounded to a grid on which every sum of the step is a whole number that a double holds exactly (the
// step changes by less than 1e-12 of itself). So rounds can be compared and skipped exactly (steady_rounds.hpp): a step
// of thousands of microbatches costs what its filling and draining and a few rounds cost.

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/plan.hpp"

namespace trimtab::tuner {

// Skips rounds of a pipeline whose effect is known. A round maps the stages' times to later times by sums and maxima.
// While every maximum is decided as it was p rounds ago, and every time has grown over the last p rounds by what it
// grew over the p before, it goes on growing by just that, and the margin of every maximum changes by a constant: so
// the first round in which some maximum is decided otherwise is known, and all rounds before it can be taken at once.
// Exact where all times are whole numbers of one grid (pipeline.hpp). Plain state, reused; no allocation once grown.
class SteadyRounds {
 public:
  // For a step of `stages` stages whose rounds write so many waits for each.
  void begin(std::int32_t stages, std::size_t waits_of_stage) {
    stages_ = static_cast<std::size_t>(stages);
    waits_of_round_ = waits_of_stage * stages_;
    periods_ = std::min(kPeriods, stages);
    depth_ = 2 * static_cast<std::size_t>(periods_) + 1;
    if (states_.size() < depth_ * 2 * stages_) states_.resize(depth_ * 2 * stages_);
    if (waits_.size() < depth_ * waits_of_round_) waits_.resize(depth_ * waits_of_round_);
    patterns_.resize(std::max(patterns_.size(), depth_));
    seen_ = 0;
  }

  // Where the coming round writes its waits. Remembers the state before it.
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
  double* waits_of(std::size_t round) { return waits_.data() + (round % depth_) * waits_of_round_; }

  // Which inputs were waited for, as one number; different patterns may collide, then decided_alike() says no.
  [[nodiscard]] std::uint64_t pattern(const double* waits) const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < waits_of_round_; ++i) bits = bits * 3 + (waits[i] > 0 ? 2 : 1);
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
      for (std::size_t w = 0; w < waits_of_round_; ++w) {
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
  std::size_t waits_of_round_ = 0;
  std::int32_t periods_ = 1;
  std::size_t depth_ = 3;  // rounds remembered
  std::size_t seen_ = 0;   // rounds since the begin or the last skip
  std::vector<double> states_;
  std::vector<double> waits_;
  std::vector<std::uint64_t> patterns_;
};

struct PipelineStage {
  double forward = 0;        // of one microbatch
  double backward = 0;       // of one microbatch, recompute included
  double last_backward = 0;  // of the last microbatch: gradient synchronization slows it down
  double tail = 0;           // from the begin of the last backward to the end of the stage's step
  double transfer = 0;       // to the next stage, of an activation or a gradient; 0 on the last
  double after = 0;          // of the tail, what follows a reduction of tied parameters: the optimizer
  // Of the host, to issue one microbatch's pass; 0 where nobody knows. The last backward is issued as the others are.
  double forward_launch = 0;
  double backward_launch = 0;
};

// What a stage takes for half a microbatch.
struct HalfPass {
  double forward = 0;
  double transfer = 0;  // of the activation to the next stage; 0 on the last
  double launch = 0;    // of the host, to issue the forward
};

// The first `microbatches` of a 1F1B step are sliced; `halves` by stage.
struct SlicedWarmup {
  std::int32_t microbatches = 0;
  const HalfPass* halves = nullptr;
};

// Reductions over stages between their synchronization and their optimizers. Reduction r's stages are
// members[begin, end).
struct TiedReductions {
  struct Reduction {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    double ms = 0;
  };
  std::vector<Reduction> reductions;
  std::vector<std::int32_t> members;

  void clear() {
    reductions.clear();
    members.clear();
  }
};

struct PipelineScratch {
  std::vector<double> arrivals;  // ends of the warm-up forwards of the stage before
  std::vector<double> free;      // when each stage is free
  std::vector<double> ready;     // when each stage has synchronized
  std::vector<PipelineStage> stages;
  std::vector<HalfPass> halves;
  std::vector<double> firsts;  // like arrivals, of first halves
  SteadyRounds steady;
};

inline std::int32_t warmup_forwards(ScheduleKind kind, std::int32_t stages, std::int32_t stage,
                                    std::int32_t microbatches) {
  return kind == ScheduleKind::kGPipe ? microbatches : std::min(microbatches, stages - stage - 1);
}

// Microbatches whose activations a stage holds at once.
inline std::int32_t in_flight(ScheduleKind kind, std::int32_t stages, std::int32_t stage, std::int32_t microbatches) {
  return kind == ScheduleKind::kGPipe ? microbatches : std::min(microbatches, stages - stage);
}

// Microbatches, from the first on, that a stage forwards in halves.
inline std::int32_t sliced_forwards(std::int32_t sliced, std::int32_t stages, std::int32_t stage,
                                    std::int32_t microbatches) {
  return std::min({sliced, warmup_forwards(ScheduleKind::k1F1B, stages, stage, microbatches) + 1, microbatches});
}

// The grid: half of a double's last digit at the size of the longest possible step. 0 where a time is not finite.
[[nodiscard]] inline double pipeline_grid(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches,
                                          const SlicedWarmup& sliced = {}) {
  double passes = 0;
  double transfer = 0;
  double ends = 0;
  double issuing = 0;
  for (std::int32_t s = 0; s < count; ++s) {
    issuing = std::max(issuing, stages[s].forward_launch + stages[s].backward_launch);
    passes = std::max(passes, stages[s].forward + stages[s].backward);
    transfer = std::max(transfer, stages[s].transfer);
    ends += stages[s].last_backward + stages[s].tail;
    if (sliced.microbatches == 0) continue;
    passes = std::max(passes, 2 * sliced.halves[s].forward + stages[s].backward);
    transfer = std::max(transfer, sliced.halves[s].transfer);
    issuing = std::max(issuing, 2 * sliced.halves[s].launch + stages[s].backward_launch);
  }
  const double longest = (microbatches + 2.0 * count) * (passes + 2 * transfer) + ends + microbatches * issuing;
  if (!(longest > 0) || !std::isfinite(longest)) return 0;
  return std::ldexp(1.0, std::ilogb(longest) + 1 - 53);
}

[[nodiscard]] inline double on_grid(double value, double grid) {
  return grid > 0 ? std::nearbyint(value / grid) * grid : value;
}

[[nodiscard]] inline PipelineStage on_grid(const PipelineStage& stage, double grid) {
  const auto round = [grid](double value) { return on_grid(value, grid); };
  return {round(stage.forward),  round(stage.backward), round(stage.last_backward),  round(stage.tail),
          round(stage.transfer), round(stage.after),    round(stage.forward_launch), round(stage.backward_launch)};
}

struct NoRecord {
  static constexpr bool kSkips = true;  // sees nothing, so rounds may be skipped
  void forward(std::int32_t, std::int32_t, double, double, double) {}
  void half(std::int32_t, std::int32_t, bool, double, double, double) {}
  void backward(std::int32_t, std::int32_t, double, double, double) {}
};

// A step's simulation, one action after the other. `record.forward(stage, microbatch, free, arrival, end)` and
// `record.backward(...)` see each, and `record.half(stage, microbatch, second?, ...)` each half of a forward: `free` is
// when the stage was ready, `arrival` when its input was there (negative where it needs none). A record that has
// `held_up(stage, microbatch, pass, how, begin)` is then told of a pass that waited for its host. One whose issuing
// ended last counts as if it had begun one length before that.
enum class HeldUp : std::uint8_t { kNot, kAtBegin, kAtEnd };
enum class PassKind : std::uint8_t { kForward, kSecondHalf, kBackward };

template <typename Record>
class Simulation {
 public:
  Simulation(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches, ScheduleKind kind,
             PipelineScratch& scratch, Record& record, const SlicedWarmup& sliced = {})
      : count_(count),
        microbatches_(microbatches),
        sliced_(sliced.microbatches),
        kind_(kind),
        record_(record),
        steady_(scratch.steady) {
    const std::int32_t arrivals = std::max(kind == ScheduleKind::kGPipe ? microbatches : 0, count);
    if (static_cast<std::int32_t>(scratch.arrivals.size()) < arrivals) scratch.arrivals.resize(arrivals);
    if (static_cast<std::int32_t>(scratch.free.size()) < count) scratch.free.resize(count);
    if (static_cast<std::int32_t>(scratch.stages.size()) < count) scratch.stages.resize(count);
    const double grid = pipeline_grid(stages, count, microbatches, sliced);
    for (std::int32_t s = 0; s < count; ++s) {
      scratch.stages[s] = on_grid(stages[s], grid);
      issues_ = issues_ || stages[s].forward_launch + stages[s].backward_launch > 0;
    }
    std::fill_n(scratch.free.begin(), count, 0.0);
    stages_ = scratch.stages.data();
    arrivals_ = scratch.arrivals.data();
    free_ = scratch.free.data();
    // Rounds in which every stage runs a forward and a backward that is not the last.
    full_rounds_ = std::min(microbatches - count + 1, microbatches - 1);
    skips_ = grid > 0 && kind == ScheduleKind::k1F1B && full_rounds_ > kFewRounds;
    if (sliced_ > 0) take_halves(sliced.halves, grid, scratch);
  }

  // When each stage's last backward has ended; valid as long as the scratch.
  const double* run() {
    std::int32_t round = 0;
    if (sliced_ > 0) {
      sliced_warm_up();
      std::copy_n(free_, count_, arrivals_);
      first_forwards();
      backwards(round++);
    } else {
      warm_up();
      std::copy_n(free_, count_, arrivals_);
    }
    if constexpr (Record::kSkips) {
      if (skips_) round = run_skipping(round);
    }
    for (; round < microbatches_; ++round) {
      forwards(round);
      backwards(round);
    }
    return free_;
  }
  [[nodiscard]] const PipelineStage* stages() const { return stages_; }

 private:
  static constexpr double kAtOnce = -1.0;
  static constexpr std::int32_t kFewRounds = 12;

  // All full rounds; returns the one that follows them.
  std::int32_t run_skipping(std::int32_t round) {
    steady_.begin(count_, issues_ ? 6 : 2);
    while (round < full_rounds_) {
      double* const waits = steady_.next(free_, arrivals_);
      issues_ ? full_issued_round(round, waits) : full_round(waits);
      round += 1 + steady_.skip(full_rounds_ - round - 1, free_, arrivals_);
    }
    return round;
  }

  void take_halves(const HalfPass* halves, double grid, PipelineScratch& scratch) {
    if (static_cast<std::int32_t>(scratch.halves.size()) < count_) scratch.halves.resize(count_);
    if (static_cast<std::int32_t>(scratch.firsts.size()) < count_) scratch.firsts.resize(count_);
    for (std::int32_t s = 0; s < count_; ++s) {
      scratch.halves[s] = {on_grid(halves[s].forward, grid), on_grid(halves[s].transfer, grid),
                           on_grid(halves[s].launch, grid)};
    }
    halves_ = scratch.halves.data();
    firsts_ = scratch.firsts.data();
  }

  // A round in which every stage does both, with how long each action waited for its input (or, negative, its input for
  // it): forwards by stage, then backwards by stage.
  void full_round(double* waits) {
    for (std::int32_t s = count_ - 1; s > 0; --s) {
      const double arrival = arrivals_[s - 1] + stages_[s - 1].transfer;
      waits[s] = arrival - free_[s];
      arrivals_[s] = free_[s] = std::max(free_[s], arrival) + stages_[s].forward;
    }
    waits[0] = 0;
    arrivals_[0] = free_[0] += stages_[0].forward;
    double* const backward_waits = waits + count_;
    backward_waits[count_ - 1] = 0;
    free_[count_ - 1] += stages_[count_ - 1].backward;
    for (std::int32_t s = count_ - 2; s >= 0; --s) {
      const double arrival = free_[s + 1] + stages_[s].transfer;
      backward_waits[s] = arrival - free_[s];
      free_[s] = std::max(free_[s], arrival) + stages_[s].backward;
    }
  }

  // The same, with how long each action waited for its host to begin issuing it and, behind that, to end.
  void full_issued_round(std::int32_t round, double* waits) {
    double* const hosts = waits + 2 * count_;
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const std::int32_t k = warmup_forwards(kind_, count_, s, microbatches_) + round;
      const double arrival = s > 0 ? arrivals_[s - 1] + stages_[s - 1].transfer : kAtOnce;
      waits[s] = s > 0 ? arrival - free_[s] : 0;
      const Issuing issuing{issued(s, k, round), issued(s, k + 1, round)};
      arrivals_[s] = free_[s] = end_of(std::max(free_[s], arrival), stages_[s].forward, issuing, hosts + 2 * s);
    }
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const std::int32_t forwards = warmup_forwards(kind_, count_, s, microbatches_) + round + 1;
      const double arrival = s < count_ - 1 ? free_[s + 1] + stages_[s].transfer : kAtOnce;
      waits[count_ + s] = s < count_ - 1 ? arrival - free_[s] : 0;
      const Issuing issuing{issued(s, forwards, round), issued(s, forwards, round + 1)};
      free_[s] = end_of(std::max(free_[s], arrival), stages_[s].backward, issuing, hosts + 2 * (count_ + s));
    }
  }

  struct Issuing {
    double begin = 0;
    double end = 0;
  };

  [[nodiscard]] std::int32_t halved_forwards(std::int32_t s) const {
    return sliced_ > 0 ? sliced_forwards(sliced_, count_, s, microbatches_) : 0;
  }
  // When the host of stage s has issued so many of its passes. Grid numbers: exact.
  [[nodiscard]] double issued(std::int32_t s, std::int32_t forwards, std::int32_t backwards) const {
    const std::int32_t halved = std::min(forwards, halved_forwards(s));
    const double in_halves = halved > 0 ? halved * 2 * halves_[s].launch : 0;
    return in_halves + (forwards - halved) * stages_[s].forward_launch + backwards * stages_[s].backward_launch;
  }
  // Of a pass whose device and input are ready; `waits` for the host, both.
  static double end_of(double ready, double length, const Issuing& issuing, double* waits) {
    waits[0] = issuing.begin - ready;
    const double end = std::max(ready, issuing.begin) + length;
    waits[1] = issuing.end - end;
    return std::max(end, issuing.end);
  }
  // Runs it, and tells the record where the host held it up.
  double run_pass(std::int32_t s, std::int32_t k, PassKind pass, double length, double arrival) {
    const double ready = std::max(free_[s], arrival);
    if (!issues_) return ready + length;
    std::array<double, 2> waits{};
    const double end = end_of(ready, length, issuing_of(s, k, pass), waits.data());
    held_up_ = waits[1] > 0 ? HeldUp::kAtEnd : waits[0] > 0 ? HeldUp::kAtBegin : HeldUp::kNot;
    return end;
  }
  [[nodiscard]] Issuing issuing_of(std::int32_t s, std::int32_t k, PassKind pass) const {
    const std::int32_t ahead = warmup_forwards(kind_, count_, s, microbatches_);
    if (pass == PassKind::kBackward) {
      const std::int32_t forwards = std::min(ahead + k + 1, microbatches_);
      return {issued(s, forwards, k), issued(s, forwards, k + 1)};
    }
    Issuing issuing{issued(s, k, std::max(0, k - ahead)), issued(s, k + 1, std::max(0, k - ahead))};
    if (pass == PassKind::kSecondHalf) issuing.begin += halves_[s].launch;
    if (pass == PassKind::kForward && k < halved_forwards(s)) issuing.end -= halves_[s].launch;
    return issuing;
  }
  void tell(std::int32_t s, std::int32_t k, PassKind pass, double length) {
    if constexpr (requires { record_.held_up(s, k, pass, held_up_, length); }) {
      if (held_up_ != HeldUp::kNot) record_.held_up(s, k, pass, held_up_, free_[s] - length);
    }
  }

  // arrivals_[k] is the end of the previous stage's forward k.
  void warm_up() {
    for (std::int32_t s = 0; s < count_; ++s) {
      const std::int32_t forwards = warmup_forwards(kind_, count_, s, microbatches_);
      for (std::int32_t k = 0; k < forwards; ++k) {
        const double arrival = s > 0 ? arrivals_[k] + stages_[s - 1].transfer : kAtOnce;
        arrivals_[k] = forward(s, k, arrival);
      }
    }
  }

  // The same; firsts_[k] is the end of the first half of forward k on the latest stage that sends it in halves.
  void sliced_warm_up() {
    for (std::int32_t s = 0; s < count_; ++s) {
      const std::int32_t forwards = warmup_forwards(kind_, count_, s, microbatches_);
      for (std::int32_t k = 0; k < forwards; ++k) {
        if (k < sliced_) {
          arrivals_[k] = both_halves(s, k, arrivals_[k]);
        } else {
          arrivals_[k] = forward(s, k, s > 0 ? arrivals_[k] + stages_[s - 1].transfer : kAtOnce);
        }
      }
    }
  }

  // The first round's forwards, as forwards() takes them.
  void first_forwards() {
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const std::int32_t k = warmup_forwards(kind_, count_, s, microbatches_);
      if (k >= microbatches_) continue;
      const double sent = s > 0 ? arrivals_[s - 1] : 0;
      if (k < sliced_) {
        arrivals_[s] = both_halves(s, k, sent);
      } else {
        arrivals_[s] = forward(s, k, s > 0 ? sent + stages_[s - 1].transfer : kAtOnce);
      }
    }
  }

  // `sent` is when the stage before ended the second half.
  double both_halves(std::int32_t s, std::int32_t k, double sent) {
    const double transfer = s > 0 ? halves_[s - 1].transfer : 0;
    firsts_[k] = half(s, k, false, s > 0 ? firsts_[k] + transfer : kAtOnce);
    return half(s, k, true, s > 0 ? sent + transfer : kAtOnce);
  }

  // From here on arrivals_[s] is the end of stage s's latest forward. Stage s needs the forward that stage s - 1 ran in
  // the round before, which is still its latest when stages are visited last to first.
  void forwards(std::int32_t round) {
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const std::int32_t k = warmup_forwards(kind_, count_, s, microbatches_) + round;
      if (k >= microbatches_) continue;
      const double arrival = s > 0 ? arrivals_[s - 1] + stages_[s - 1].transfer : kAtOnce;
      arrivals_[s] = forward(s, k, arrival);
    }
  }

  void backwards(std::int32_t round) {
    const bool last = round == microbatches_ - 1;
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const double arrival = s < count_ - 1 ? free_[s + 1] + stages_[s].transfer : kAtOnce;
      const double ready = free_[s];
      const double length = last ? stages_[s].last_backward : stages_[s].backward;
      free_[s] = run_pass(s, round, PassKind::kBackward, length, arrival);
      record_.backward(s, round, ready, arrival, free_[s]);
      tell(s, round, PassKind::kBackward, length);
    }
  }

  double forward(std::int32_t s, std::int32_t k, double arrival) {
    const double ready = free_[s];
    free_[s] = run_pass(s, k, PassKind::kForward, stages_[s].forward, arrival);
    record_.forward(s, k, ready, arrival, free_[s]);
    tell(s, k, PassKind::kForward, stages_[s].forward);
    return free_[s];
  }

  double half(std::int32_t s, std::int32_t k, bool second, double arrival) {
    const double ready = free_[s];
    const PassKind pass = second ? PassKind::kSecondHalf : PassKind::kForward;
    free_[s] = run_pass(s, k, pass, halves_[s].forward, arrival);
    record_.half(s, k, second, ready, arrival, free_[s]);
    tell(s, k, pass, halves_[s].forward);
    return free_[s];
  }

  const PipelineStage* stages_ = nullptr;
  const HalfPass* halves_ = nullptr;
  std::int32_t count_;
  std::int32_t microbatches_;
  std::int32_t sliced_;
  ScheduleKind kind_;
  Record& record_;
  SteadyRounds& steady_;
  double* arrivals_ = nullptr;
  double* free_ = nullptr;
  double* firsts_ = nullptr;
  std::int32_t full_rounds_ = 0;
  bool skips_ = false;
  bool issues_ = false;            // some stage has a host's clock
  HeldUp held_up_ = HeldUp::kNot;  // the latest pass
};

// Reductions of tied parameters, once the last of their stages is ready. `source`, where it is asked for, is the stage
// whose last backward decided when each was.
inline void reduce_tied(const TiedReductions& ties, std::vector<double>& ready, std::vector<std::int32_t>* source) {
  for (const TiedReductions::Reduction& tie : ties.reductions) {
    std::int32_t latest = ties.members[tie.begin];
    for (std::int32_t m = tie.begin; m < tie.end; ++m) {
      if (ready[ties.members[m]] > ready[latest]) latest = ties.members[m];
    }
    const double end = ready[latest] + tie.ms;
    const std::int32_t decided = source != nullptr ? (*source)[latest] : 0;
    for (std::int32_t m = tie.begin; m < tie.end; ++m) {
      ready[ties.members[m]] = end;
      if (source != nullptr) (*source)[ties.members[m]] = decided;
    }
  }
}

// When each stage has synchronized, its tied parameters included, from when its last backward ended; how long each was
// held up by other stages is in the difference.
inline void synchronize(const PipelineStage* stages, std::int32_t count, const double* backward_ends,
                        const TiedReductions& ties, std::vector<double>& ready, std::vector<std::int32_t>* source) {
  if (static_cast<std::int32_t>(ready.size()) < count) ready.resize(count);
  for (std::int32_t s = 0; s < count; ++s) {
    ready[s] = backward_ends[s] - stages[s].last_backward + (stages[s].tail - stages[s].after);
    if (source != nullptr) (*source)[s] = s;
  }
  reduce_tied(ties, ready, source);
}

// The step's time alone: when the last stage to end has ended.
inline double simulate(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches, ScheduleKind kind,
                       PipelineScratch& scratch, const TiedReductions& ties = {}, const SlicedWarmup& sliced = {}) {
  NoRecord record;
  Simulation<NoRecord> simulation(stages, count, microbatches, kind, scratch, record, sliced);
  const double* const ends = simulation.run();
  synchronize(simulation.stages(), count, ends, ties, scratch.ready, nullptr);
  double end = 0;
  for (std::int32_t s = 0; s < count; ++s) end = std::max(end, scratch.ready[s] + simulation.stages()[s].after);
  return end;
}

}  // namespace trimtab::tuner
