#pragma once

// Where a candidate's bottleneck is (Aceso, heuristic 1): the stage furthest over its memory, otherwise the stage that
// is busy longest; and which of the stage's resources to relieve first (heuristic 2, highest consumption first).

#include <array>
#include <string>
#include <vector>

#include "evaluator.hpp"

namespace trimtab::tuner {

enum class Resource : std::uint8_t { kComputation, kCommunication, kMemory };
inline constexpr std::size_t kResources = 3;

[[nodiscard]] const char* to_string(Resource resource);

struct StageLoad {
  std::array<double, kResources> used{};  // ms, ms, bytes, over a step
  double excess_bytes = 0;
  [[nodiscard]] double busy_ms() const { return used[0] + used[1]; }
};

struct Load {
  std::vector<StageLoad> stages;
  std::vector<std::int32_t> ranking;  // stages, the worst bottleneck first
  bool fits = true;

  // Resources of a stage that bound it, those that it consumes the largest share of all stages of first.
  [[nodiscard]] std::vector<Resource> resources(std::int32_t stage) const;
};

[[nodiscard]] Load load_of(Evaluator& evaluator, const Candidate& candidate);

// "stage 1 computation"
[[nodiscard]] std::string bottleneck_text(const Load& load, std::int32_t stage);

}  // namespace trimtab::tuner
