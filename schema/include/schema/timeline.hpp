#pragma once

// What a bar in the picture of one training step stands for, predicted or measured: the one list of the kinds' names in
// documents and on the wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trimtab {

enum class TimelineKind : std::uint8_t {
  kForward,
  kBackward,
  kRecompute,
  kTransfer,  // activation or gradient between stages, drawn on the receiving stage
  kGradientSync,
  kOptimizer,
};

inline constexpr std::array<TimelineKind, 6> kTimelineKinds = {TimelineKind::kForward,      TimelineKind::kBackward,
                                                               TimelineKind::kRecompute,    TimelineKind::kTransfer,
                                                               TimelineKind::kGradientSync, TimelineKind::kOptimizer};

[[nodiscard]] constexpr std::string_view to_string(TimelineKind kind) {
  constexpr std::array<std::string_view, kTimelineKinds.size()> kNames = {"forward",  "backward",      "recompute",
                                                                          "transfer", "gradient_sync", "optimizer"};
  return kNames[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr std::optional<TimelineKind> timeline_kind_named(std::string_view name) {
  for (const TimelineKind kind : kTimelineKinds) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace trimtab
