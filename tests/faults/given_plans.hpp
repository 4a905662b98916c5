#pragma once

// What a simulated run's coordinators have given out, one after the other: no rank may run anything else.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "seeded_runs.hpp"

namespace trimtab::test {

// Epochs count anew in each run of the job; launches do not.
class GivenPlans {
 public:
  void propose(std::int64_t run, std::uint64_t epoch, const std::string& plan) {
    const auto& known = proposed_.emplace(std::pair(run, epoch), plan).first->second;
    expect(known == plan, "an epoch is of one plan, whoever gives it out");
  }
  void commit(std::int64_t run, std::uint64_t epoch) { committed_.emplace(run, epoch); }
  void launch(std::int64_t run, std::uint64_t launch, std::uint64_t epoch, const std::string& plan) {
    expect(runs_.emplace(launch, run).first->second == run, "a launch is of one run");
    propose(run, epoch, plan);
    commit(run, epoch);
  }
  // A rank of this launch runs the plan.
  void check_runs(std::uint64_t launch, std::uint64_t epoch, const std::string& plan) const {
    const auto run = runs_.find(launch);
    expect(run != runs_.end(), "a launch was asked for");
    const auto found = proposed_.find({run->second, epoch});
    expect(found != proposed_.end() && found->second == plan, "a rank runs the plan that its epoch was given out for");
    expect(committed_.contains({run->second, epoch}), "a rank runs no plan that nobody committed");
  }

 private:
  std::map<std::pair<std::int64_t, std::uint64_t>, std::string> proposed_;  // by run and epoch
  std::set<std::pair<std::int64_t, std::uint64_t>> committed_;              // launched with, too
  std::map<std::uint64_t, std::int64_t> runs_;                              // by launch
};

}  // namespace trimtab::test
