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
  // How often its process has compiled, captured a graph or grown its allocator so far; 0 = not told.
  std::int64_t preparations = 0;
  double gradient_norm = 0;     // 0: this rank has none
  std::string not_finite = {};  // "loss" or "gradient norm" where it became NaN or infinite; empty: neither did
};

struct JobStep {
  std::int64_t step = 0;
  std::uint64_t epoch = 0;      // 0 when the ranks' epochs differ
  double wall_ms = 0;           // the slowest rank's
  double loss = 0;              // the mean of the ranks that have one; 0 = none
  std::string samples;          // the lowest rank's that has one
  bool prepared = false;        // a rank's preparations grew in it
  double gradient_norm = 0;     // the mean of the ranks that have one; 0 = none
  std::string not_finite = {};  // the lowest rank's that has one
};

class StepAssembly {
 public:
  explicit StepAssembly(std::int32_t world_size) : world_size_(world_size), expected_(world_size) {}

  // A step is whole once so many ranks have told of it: not every rank of a watched job need be known.
  void expect(std::int32_t ranks) { expected_ = ranks; }

  // The whole step, when this was its last rank.
  [[nodiscard]] std::optional<JobStep> add(std::int32_t rank, const RankStep& step);
  // The processes are the same: what they have prepared is still known.
  void clear() { open_.clear(); }
  // The ranks that have not told of the oldest open step, "1, 5"; empty = no step is open.
  [[nodiscard]] std::string missing_ranks() const;

 private:
  struct OpenStep {
    std::map<std::int32_t, RankStep> ranks;
    bool prepared = false;
  };
  [[nodiscard]] bool prepared_more(std::int32_t rank, std::int64_t preparations);

  std::int32_t world_size_;
  std::int32_t expected_;
  std::map<std::int64_t, OpenStep> open_;
  std::map<std::int32_t, std::int64_t> preparations_;  // by rank, the latest that it told
};

}  // namespace trimtab::coordinator
