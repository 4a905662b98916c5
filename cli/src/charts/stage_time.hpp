#pragma once

// What each stage did with the time of one iteration, out of its timeline. Pure.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tuner/cost_model.hpp"

namespace trimtab::cli {

// At every moment a stage does one of these; communication counts where no computation runs beside it.
enum class Activity { kForward, kBackward, kRecompute, kOptimizer, kGradientSync, kTransfer, kWaiting };
inline constexpr std::size_t kActivities = 7;

struct StageTime {
  std::int32_t stage = 0;
  std::array<double, kActivities> ms{};  // by Activity; their sum is the iteration's length
};

[[nodiscard]] std::string_view to_string(Activity activity);  // "exposed transfer"
// By stage. From the iteration's begin (0) to the last event's end of any stage.
[[nodiscard]] std::vector<StageTime> stage_times(const std::vector<tuner::TimelineEvent>& timeline);
// Shares of the iteration, over all stages; zeros for none.
[[nodiscard]] std::array<double, kActivities> mean_shares(const std::vector<StageTime>& stages);

}  // namespace trimtab::cli
