#pragma once

// One rank's side of a change of plan, as client/python/trimtab/plan_change.py has it, without its kill switch.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace trimtab::test {

struct PlanOffers {
  std::uint64_t highest = 0;  // epoch
  std::map<std::uint64_t, std::string> accepted;
  std::map<std::uint64_t, std::int64_t> committed;

  // Whether a proposal is new to the rank, and so to be answered.
  [[nodiscard]] bool is_new(std::uint64_t epoch) const { return epoch > highest; }
  void accept(std::uint64_t epoch, const std::string& plan) {
    accepted[epoch] = plan;
    committed.erase(epoch);
  }
  void commit(std::uint64_t epoch, std::int64_t step) {
    if (accepted.contains(epoch)) committed[epoch] = step;
  }
  void cancel(std::uint64_t epoch) {
    accepted.erase(epoch);
    committed.erase(epoch);
  }
  [[nodiscard]] bool may_enter(std::uint64_t epoch, std::int64_t step) const {
    const auto found = committed.find(epoch);
    return found != committed.end() && found->second <= step;
  }
  [[nodiscard]] std::uint64_t offer(std::int64_t step) const {
    std::uint64_t most = highest;
    for (const auto& [epoch, due] : committed) most = due <= step ? std::max(most, epoch) : most;
    return most;
  }
  void enter(std::uint64_t epoch) {
    highest = epoch;
    std::erase_if(accepted, [epoch](const auto& one) { return one.first <= epoch; });
    std::erase_if(committed, [epoch](const auto& one) { return one.first <= epoch; });
  }
};

}  // namespace trimtab::test
