#pragma once

// A training rank as all tests simulate it: which plan it runs, and its side of a change of plan, as
// client/python/trimtab/plan_change.py has it, without its kill switch. Who simulates a job decides what its ranks
// say, how that travels, how long steps take, and what goes wrong.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::test {

class SimulatedRank {
 public:
  SimulatedRank() = default;
  // Launched with this plan.
  SimulatedRank(std::uint64_t epoch, std::string plan) : epoch_(epoch), plan_(std::move(plan)), highest_(epoch) {}

  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const std::string& plan() const { return plan_; }

  // Whether a proposal is new to the rank, and so to be answered.
  [[nodiscard]] bool is_new(std::uint64_t epoch) const { return epoch > highest_; }
  void accept(std::uint64_t epoch, const std::string& plan) {
    accepted_[epoch] = plan;
    committed_.erase(epoch);
  }
  // Empty where it has accepted none of this epoch, or is past it.
  [[nodiscard]] std::string accepted(std::uint64_t epoch) const {
    const auto found = accepted_.find(epoch);
    return found == accepted_.end() ? "" : found->second;
  }
  // From before this step on.
  void commit(std::uint64_t epoch, std::int64_t step) {
    if (accepted_.contains(epoch)) committed_[epoch] = step;
  }
  void cancel(std::uint64_t epoch) {
    accepted_.erase(epoch);
    committed_.erase(epoch);
  }
  // Runs that plan from now on.
  void enter(std::uint64_t epoch) {
    plan_ = accepted_.at(epoch);
    epoch_ = epoch;
    leave_behind(epoch);
  }
  // The change failed: the plan before goes on, and this epoch is not tried again.
  void fail(std::uint64_t epoch) { leave_behind(epoch); }

  // Asked to measure again between two steps; 0 = not any more.
  void ask(std::uint64_t measuring) { measuring_ = measuring; }
  // What ranks that stand between two steps measure: what all of them were asked for. They are asked once.
  [[nodiscard]] static std::optional<std::uint64_t> measured(const std::vector<SimulatedRank*>& ranks) {
    const std::uint64_t number = ranks.front()->measuring_;
    const bool all = std::ranges::all_of(ranks, [&](const SimulatedRank* one) { return one->measuring_ == number; });
    if (number == 0 || !all) return std::nullopt;
    for (SimulatedRank* const rank : ranks) rank->measuring_ = 0;
    return number;
  }

  // What ranks that stand before `step` agree on: the minimum of what they offer, where all hold it. Nothing: they go
  // on as they are.
  [[nodiscard]] static std::optional<std::uint64_t> agreed(const std::vector<const SimulatedRank*>& ranks,
                                                           std::int64_t step) {
    std::uint64_t least = UINT64_MAX;
    for (const SimulatedRank* rank : ranks) least = std::min(least, rank->offer(step));
    const bool all =
        std::ranges::all_of(ranks, [&](const SimulatedRank* rank) { return rank->may_enter(least, step); });
    return all ? std::optional(least) : std::nullopt;
  }

 private:
  [[nodiscard]] std::uint64_t offer(std::int64_t step) const {
    std::uint64_t most = highest_;
    for (const auto& [epoch, due] : committed_) most = due <= step ? std::max(most, epoch) : most;
    return most;
  }
  [[nodiscard]] bool may_enter(std::uint64_t epoch, std::int64_t step) const {
    const auto found = committed_.find(epoch);
    return epoch > highest_ && found != committed_.end() && found->second <= step;
  }
  void leave_behind(std::uint64_t epoch) {
    highest_ = epoch;
    std::erase_if(accepted_, [epoch](const auto& one) { return one.first <= epoch; });
    std::erase_if(committed_, [epoch](const auto& one) { return one.first <= epoch; });
  }

  std::uint64_t epoch_ = 0;
  std::string plan_;
  std::uint64_t highest_ = 0;  // epoch that it has entered, or tried to
  std::map<std::uint64_t, std::string> accepted_;
  std::map<std::uint64_t, std::int64_t> committed_;
  std::uint64_t measuring_ = 0;
};

}  // namespace trimtab::test
