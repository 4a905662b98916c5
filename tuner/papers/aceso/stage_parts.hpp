#pragma once

// One stage by the published arithmetic, operator by operator: any split of each operator, recompute given or derived.
// The plain form of what uniform_stage.hpp computes from prefix sums.

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "papers/aceso/tables.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::aceso {

struct OperatorSplit {
  std::int32_t setting = -1;  // of the tables; -1 = not measured
  std::int32_t dp = 1, tp = 1;
  bool alternate = false;
};

// The stage's place in the pipeline. `copies` is how many microbatches' activations it holds: stages from it to the
// end.
struct Place {
  std::int32_t copies = 1;
  bool inter_node_input = false, inter_node_output = false;
};

[[nodiscard]] inline Place place_of(const Tables& tables, std::int32_t copies, std::int32_t first_device,
                                    std::int32_t devices) {
  return {copies, tables.inter_node_input(first_device), tables.inter_node_output(first_device + devices)};
}

struct StageCost {
  double time = 0;    // us of one microbatch
  double memory = 0;  // MiB
};

struct StageParts {
  double forward = 0, backward = 0, recompute = 0;      // us of one microbatch
  double in = 0, out = 0;                               // us, layout changes of that direction included
  double reshard = 0;                                   // the part of in + out that is layout changes
  double weight = 0;                                    // MiB, one copy
  double kept = 0;                                      // MiB of one microbatch that waits for its backward
  double recompute_peak = 0, reserved = 0, memory = 0;  // MiB

  [[nodiscard]] double time() const { return forward + backward + recompute + in + out; }  // us
};

// us that the layout change from the operator before `op` to `op` takes.
struct ReshardTime {
  double forward = 0, backward = 0;
};
[[nodiscard]] ReshardTime reshard_time(const Tables& tables, std::int32_t op, const OperatorSplit& before,
                                       const OperatorSplit& split);

// The same, forward and backward, between any two of a stage's options. Remembers; not thread-safe.
class ReshardTimes {
 public:
  // Both must outlive this.
  ReshardTimes(const Tables& tables, const std::vector<OperatorSplit>& options) : tables_(tables), options_(options) {}

  // From each option of the operator before `op` to each of its own.
  const std::vector<double>& of(std::int32_t op) {
    const std::uint64_t kinds = static_cast<std::uint64_t>(tables_.facts(op - 1).kind) << 32 |
                                static_cast<std::uint32_t>(tables_.facts(op).kind);
    std::vector<double>& times = times_[kinds];
    if (!times.empty()) return times;
    for (const OperatorSplit& before : options_) {
      for (const OperatorSplit& option : options_) {
        const ReshardTime time = reshard_time(tables_, op, before, option);
        times.push_back(time.forward + time.backward);
      }
    }
    return times;
  }

 private:
  const Tables& tables_;
  const std::vector<OperatorSplit>& options_;
  std::unordered_map<std::uint64_t, std::vector<double>> times_;  // by kinds of two neighbours
};

// `splits` by operator from `begin` on; `recompute` likewise, nonzero for a recomputed operator.
[[nodiscard]] StageParts stage_parts(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                                     std::span<const std::uint8_t> recompute, const Place& place);

// Sets the flags of the ranges' operators. `flags` are of a stage that begins with operator `begin`.
void mark(const std::vector<Range>& ranges, std::int32_t begin, std::vector<std::uint8_t>& flags);

// Adds an operator behind all others of the ranges.
inline void add_operator(std::int32_t op, std::vector<Range>& ranges) {
  if (ranges.empty() || ranges.back().end != op) ranges.push_back({op, op});
  ranges.back().end = op + 1;
}

// The other way round.
[[nodiscard]] inline std::vector<Range> ranges_of(const std::vector<std::uint8_t>& flags, std::int32_t begin) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) add_operator(begin + static_cast<std::int32_t>(i), ranges);
  }
  return ranges;
}

// What recompute saves of one microbatch, and the largest part of it that is back at one time.
struct Saved {
  double saved = 0, peak = 0;
  double run = 0;  // of saved activations that is open

  void add(double mib, bool kept) {
    run += mib;
    peak = std::max(peak, run);
    if (kept) {
      run = 0;
    } else {
      saved += mib;
    }
  }
};

// A stage's operators with their rows. Refers to its arguments.
class StageView {
 public:
  StageView(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits)
      : tables_(tables), begin_(begin), splits_(splits) {}

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(splits_.size()); }
  [[nodiscard]] const Row& row(std::int32_t i) const { return tables_.row(splits_[i].setting, begin_ + i); }
  [[nodiscard]] double activation(std::int32_t i) const {
    return row(i).activation * tables_.facts(begin_ + i).name.activation_factor;
  }
  [[nodiscard]] Saved saved(std::span<const std::uint8_t> recompute) const {
    Saved saved;
    for (std::int32_t i = 0; i + 1 < size(); ++i) {
      if (recompute[i] == 0 || recompute[i + 1] == 0) {
        saved.run = 0;
      } else {
        saved.add(activation(i), tables_.keeps_output(begin_ + i));
      }
    }
    return saved;
  }

 private:
  const Tables& tables_;
  std::int32_t begin_;
  std::span<const OperatorSplit> splits_;
};

}  // namespace trimtab::tuner::aceso
