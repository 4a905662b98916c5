#pragma once

// All cuts at once, for devices that are given: an exact program over cuts near those of a candidate, each stage at
// what the model says it takes there (relayed operator moves, Aceso, section 4.3). Where the model has an exact pricer
// of stages, splits and recompute inside of each stage are chosen anew with every cut (op-level fine-tuning, section
// 4.2); elsewhere stages keep their splits.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"

namespace trimtab::tuner {

class Recutting {
 public:
  // Must outlive this.
  explicit Recutting(SearchRun& run) : run_(run) {}

  // The best of some rounds; the given one where nothing is better.
  [[nodiscard]] Scored recut(const Scored& from);

 private:
  // Where a stage may end, by index into the space's cuts: one value, behind all cuts, for the last stage.
  struct Window {
    std::int32_t first = 0, count = 1;
  };

  [[nodiscard]] bool possible(const Scored& from);
  // Finds the pricer of the microbatch; none where it only estimates.
  void choose_pricer(std::int32_t microbatch);
  void open_windows(const Candidate& center);
  void price_stages(const Candidate& center);
  void price_stage(Candidate& probe, std::size_t s, std::int32_t begin, std::span<const std::int32_t> ends,
                   const StagePlace& place);
  // The least possible slowest stage.
  [[nodiscard]] double least_slowest() const;
  // The cuts with the least sum of times under a limit of each; false where there are none.
  [[nodiscard]] bool solve(double limit);
  [[nodiscard]] Candidate with_cuts(const Candidate& center);

  [[nodiscard]] std::int32_t end_at(std::size_t s, std::int32_t i) const;
  [[nodiscard]] double time(std::size_t s, std::int32_t from, std::int32_t to) const {
    return times_[s][static_cast<std::size_t>(from) * static_cast<std::size_t>(windows_[s].count) +
                     static_cast<std::size_t>(to)];
  }
  [[nodiscard]] std::int32_t begins(std::size_t s) const { return s == 0 ? 1 : windows_[s - 1].count; }

  SearchRun& run_;
  std::map<std::int32_t, std::unique_ptr<StagePricer>> pricers_;  // by microbatch
  StagePricer* pricer_ = nullptr;
  std::vector<Window> windows_;             // by stage
  std::vector<std::vector<double>> times_;  // by stage: ms, by begin and end within the windows
  std::vector<std::int32_t> chosen_;        // by stage: where it ends within its window
  std::vector<std::int32_t> ends_;
};

}  // namespace trimtab::tuner
