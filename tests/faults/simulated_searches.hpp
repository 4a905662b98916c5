#pragma once

// Searches in virtual time, without the tuner: the same few plans, whose predictions are near what steps take.

#include "base/random.hpp"
#include "jobs/search_worker.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedSearches final : public coordinator::Searches {
 public:
  // `act` does the work as the coordinator, unless this one is gone by then.
  SimulatedSearches(VirtualTime& time, Random& random, std::function<void(const std::function<void()>&)> act)
      : time_(time), random_(random), act_(std::move(act)) {}
  void enqueue(coordinator::SearchTask task, std::function<void(coordinator::SearchReply)> done) override;

 private:
  VirtualTime& time_;
  Random& random_;
  std::function<void(const std::function<void()>&)> act_;
};

}  // namespace trimtab::test
