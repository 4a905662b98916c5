#pragma once

// What the machine is doing, and what belongs to that while this process lives: the alternatives own it, so that a
// change of plan, a restart, a measurement or a probe ends with everything that was known of it. The word (Doing) is
// what is stored; after a coordinator's restart it may be of something that is not under way any more.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "tuning/change/agreement.hpp"
#include "tuning/outcome.hpp"
#include "tuning/state.hpp"
#include "tuning/trial/clock_check.hpp"
#include "tuning/trial/interleaving.hpp"

namespace trimtab::coordinator {

// Plans in turn: the blocks so far, and whether the ranks' clocks can be believed.
struct Measuring {
  Interleaving blocks;
  ClockCheck clock = {};
  Nanoseconds moved_at{0};    // when a whole step of the running block came, or the block began
  std::int32_t left_out = 0;  // steps of the running block that cannot be
};

// A live change of plan.
struct PlanChange {
  Agreement agreement;
  PlanText plan;
  std::optional<Measuring> then;  // what goes on under the plan; nothing: the ranks are brought back to the incumbent
};

// A change of plan by a new launch, and how long its stages take.
struct Restart {
  PlanText plan;
  Nanoseconds began{0};
  std::optional<Measuring> then = {};  // what the launch is for: a trial's, which is measured; else the job's own
  // When it came to that; 0 = it has not yet, or nobody tells.
  Nanoseconds ended{0};      // every rank of the launch before
  Nanoseconds started{0};    // every process
  Nanoseconds queued{0};     // the launch, in a scheduler's queue
  Nanoseconds connected{0};  // every rank
  std::set<std::int32_t> connected_ranks = {};
  ChangePhases told = {};  // groups and build, of the ranks that took longest

  void connect(std::int32_t rank, const RankConnected& rank_connected, std::int32_t world_size, Nanoseconds now);
  // Until now, when the launch has come to its first step. What nobody told of is part of the stage after it.
  [[nodiscard]] ChangePhases phases(Nanoseconds now) const;
};

// What a drift has made doubtful is measured again by the ranks, before plans are searched.
struct MeasuringAgain {
  std::uint64_t number = 0;  // 0 = what is doubtful is not known yet
  Doubtful doubtful = {};
  std::map<std::int32_t, RankMeasured> told = {};
};

// What a drift has changed is probed for, or, where that is known, measured.
struct Probing {
  Nanoseconds since{0};
  std::optional<MeasuringAgain> again = {};
};

using Activity = std::variant<std::monostate, PlanChange, Restart, Measuring, Probing>;

class CurrentActivity {
 public:
  explicit CurrentActivity(Doing& word) : word_(word) {}

  void become(Doing word, Activity activity = {}) {
    word_ = word;
    activity_ = std::move(activity);
  }
  // The same goes on: ranks of a restart are launched, a block begins.
  void go_on_as(Doing word) { word_ = word; }
  // It ends, and the word with whatever follows. Ranks are told that a live change is not to be.
  void cancel(Outcome& out) {
    if (const auto* const change = get<PlanChange>()) out.act(CancelPlan{change->agreement.epoch()});
    activity_ = {};
  }

  template <typename One>
  [[nodiscard]] One* get() {
    return std::get_if<One>(&activity_);
  }
  template <typename One>
  [[nodiscard]] const One* get() const {
    return std::get_if<One>(&activity_);
  }
  // Out of it; nothing where it is something else, which stays.
  template <typename One>
  [[nodiscard]] std::optional<One> take() {
    One* const one = get<One>();
    if (one == nullptr) return std::nullopt;
    std::optional<One> taken = std::move(*one);
    activity_ = {};
    return taken;
  }
  // Of invariants.cpp: the word and what is owned are of one thing, in a phase that has such.
  void check(const TuningState& state, bool nodes_are_away) const;

 private:
  Doing& word_;
  Activity activity_;
};

}  // namespace trimtab::coordinator
