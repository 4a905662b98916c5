#pragma once

// Which plan the ranks run, as far as they have told: the one of the epoch that all are at. Pure.

#include <cstdint>
#include <map>
#include <string>

#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

struct TuningState;

class RunningPlan {
 public:
  explicit RunningPlan(const TuningState& state) : state_(state) {}

  // Of the hash; empty = the ranks run several, or nobody knows.
  [[nodiscard]] const std::string& hash() const { return hash_; }
  [[nodiscard]] bool is(const PlanText& plan) const { return !hash_.empty() && hash_ == plan.hash; }
  // A rank of the present launch has told of its epoch.
  [[nodiscard]] bool is_told() const { return !epochs_.empty(); }

  void begin_launch();
  void learn(std::int32_t rank, std::uint64_t epoch);
  // Every rank has finished a step of this epoch. Called for each step, so the usual case, nothing new, is cheap.
  void learn_of_all(std::uint64_t epoch);
  // The ranks have agreed on it.
  void set(const std::string& hash) { hash_ = hash; }
  void forget() { hash_.clear(); }

 private:
  const TuningState& state_;
  std::string hash_;
  std::map<std::int32_t, std::uint64_t> epochs_;          // by rank
  std::map<std::uint64_t, std::int32_t> ranks_at_epoch_;  // the same, counted
};

}  // namespace trimtab::coordinator
