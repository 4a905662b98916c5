#pragma once

// The words of plan.json, in the order of the enumerations of schema/plan.hpp.

#include <string_view>

#include "schema/plan.hpp"

namespace trimtab {

inline constexpr std::string_view kPlanSchema = "trimtab.plan/1";
inline constexpr std::string_view kShardedLevels[] = {"none", "optimizer", "gradients", "parameters"};
inline constexpr std::string_view kScheduleKinds[] = {"1f1b", "gpipe", "interleaved"};
inline constexpr std::string_view kTransfers[] = {"eager", "blocking"};

struct SwitchRanges {
  std::string_view name;
  std::vector<Range> Switches::*ranges;
};
inline constexpr SwitchRanges kSwitchRanges[] = {{"offload_hidden", &Switches::offload_hidden},
                                                 {"partition_parameters", &Switches::partition_parameters},
                                                 {"lazy_prefetch", &Switches::lazy_prefetch},
                                                 {"economical_forward", &Switches::economical_forward},
                                                 {"economical_backward", &Switches::economical_backward},
                                                 {"segment_sync", &Switches::segment_sync}};

template <typename Enum, std::size_t N>
constexpr std::string_view name_of(Enum value, const std::string_view (&names)[N]) {
  return names[static_cast<std::size_t>(value)];
}

}  // namespace trimtab
