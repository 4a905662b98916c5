#pragma once

// Where a rank's time went in one step, by its ranges (docs/protocols.md, "Ranges"): what its own thread computed, and
// what it waited for while it did not. At every moment the first of these counts:
//   computation  an operator's pass, or the optimizer, on any thread; collectives inside a pass are its own
//   collectives  a collective on the step's thread with a pass still to come: a change of layout
//   transfers    a transfer on the step's thread
//   gradients    any other collective: it runs, and nothing hides it
//   idle         none of them
// Pure; memory is the caller's.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trimtab::agent {

struct StepTermTimes {
  std::uint64_t computation_ns = 0;
  std::uint64_t collectives_ns = 0;
  std::uint64_t transfers_ns = 0;
  std::uint64_t gradients_ns = 0;
  std::uint64_t idle_ns = 0;
  bool operator==(const StepTermTimes&) const = default;
};

enum class StepWork : std::uint8_t { kPass, kOptimizer, kCollective, kTransfer };

struct StepInterval {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  StepWork work = StepWork::kPass;
  std::uint32_t thread = 0;
};

// Nothing for ranges that are none of them.
[[nodiscard]] std::optional<StepWork> step_work(std::string_view name);

// `intervals` in any order; what lies outside of the step is cut off.
[[nodiscard]] StepTermTimes step_terms(std::vector<StepInterval> intervals, std::uint64_t begin_ns,
                                       std::uint64_t end_ns, std::uint32_t thread);

}  // namespace trimtab::agent
