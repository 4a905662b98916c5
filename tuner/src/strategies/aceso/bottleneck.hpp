#pragma once

// Where a candidate's bottleneck is (Aceso, heuristic 1): the stage furthest over its memory, otherwise the stage that
// takes longest; and which of the stage's resources to relieve first (heuristic 2, highest consumption first).

#include <array>
#include <string>
#include <vector>

#include "pricing/evaluator.hpp"

namespace trimtab::tuner {

enum class Resource : std::uint8_t { kComputation, kCommunication, kMemory };
inline constexpr std::size_t kResources = 3;

[[nodiscard]] const char* to_string(Resource resource);

struct StageLoad {
  std::array<double, kResources> used{};  // ms, ms, bytes, over a step
  double step_ms = 0;                     // what the stage alone bounds the step by
  double recompute_ms = 0;                // over a step: time that was given for memory
  double spare_bytes = 0;                 // negative when over the limit; infinite without one
  double excess_bytes = 0;
};

struct Load {
  std::vector<StageLoad> stages;
  std::vector<std::int32_t> ranking;  // stages, the worst bottleneck first
  bool fits = true;

  // What the stage uses of a resource, as a share of what all stages use. Of memory in a candidate that fits: the share
  // of the time that memory costs, which is recompute.
  [[nodiscard]] double share(std::int32_t stage, Resource resource) const;
  // Resources of a stage that bound it, those that it consumes the largest share of all stages of first.
  [[nodiscard]] std::vector<Resource> resources(std::int32_t stage) const;
  // The other stages, those with most of the resource to spare first.
  [[nodiscard]] std::vector<std::int32_t> partners(std::int32_t stage, Resource resource) const;
};

[[nodiscard]] Load load_of(Evaluator& evaluator, const Candidate& candidate);

// "stage 1 computation"
[[nodiscard]] std::string bottleneck_text(const Load& load, std::int32_t stage);
[[nodiscard]] std::string bottleneck_text(std::int32_t stage, Resource resource);

}  // namespace trimtab::tuner
