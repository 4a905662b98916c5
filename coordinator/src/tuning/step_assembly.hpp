#pragma once

// Puts the ranks' step messages together into steps of the job: a step is over when every rank says so. Bounded: a step
// that some rank never reports is forgotten once the others are far ahead. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::coordinator {

struct RankStep {
  std::int64_t step = 0;
  std::uint64_t epoch = 0;
  double wall_ms = 0;
  double loss = 0;      // 0 or not finite: this rank has none
  std::string samples;  // hash of the step's sample ids; empty: this rank has none
  std::int64_t peak_bytes = 0;
};

struct JobStep {
  std::int64_t step = 0;
  std::uint64_t epoch = 0;  // 0 when the ranks' epochs differ
  double wall_ms = 0;       // the slowest rank's
  double loss = 0;          // the mean of the ranks that have one; 0 = none
  std::string samples;      // the lowest rank's that has one
};

class StepAssembly {
 public:
  explicit StepAssembly(std::int32_t world_size) : world_size_(world_size) {}

  // The whole step, when this was its last rank.
  [[nodiscard]] std::optional<JobStep> add(std::int32_t rank, const RankStep& step);
  void clear() { open_.clear(); }
  // The ranks that have not told of the oldest open step, "1, 5"; empty = no step is open.
  [[nodiscard]] std::string missing_ranks() const;

 private:
  std::int32_t world_size_;
  std::map<std::int64_t, std::map<std::int32_t, RankStep>> open_;
};

}  // namespace trimtab::coordinator
