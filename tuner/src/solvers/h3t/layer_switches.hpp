#pragma once

// H3T's seven switches of a layer, and their valid combinations. Plain values.

#include <array>
#include <cstddef>
#include <vector>

namespace trimtab::tuner::h3t {

struct LayerSwitches {
  bool partition_parameters = false;  // ZeRO level 3 (off: 2): gathered parameters are released between the passes
  bool lazy_prefetch = false;         // partitioned parameters are on the host between uses
  bool rematerialize = false;         // intermediates are computed again in the backward pass
  bool offload_hidden = false;        // the input waits on the host; needs `rematerialize`
  bool economical_forward = false;    // what is over leaves before what comes next is fetched
  bool economical_backward = false;
  bool segment_sync = true;  // all streams join before this layer's segments

  [[nodiscard]] bool valid() const { return rematerialize || !offload_hidden; }
  bool operator==(const LayerSwitches&) const = default;
};

using Switching = std::vector<LayerSwitches>;  // of every layer

inline constexpr LayerSwitches kAllOn{true, true, true, true, true, true, true};

// What a layer may have on: nothing that is off here.
struct AllowedSwitches : LayerSwitches {
  bool lazy_needs_partition = false;  // lazy_prefetch beside partition_parameters alone
};

[[nodiscard]] constexpr bool is_within(const LayerSwitches& of, const AllowedSwitches& allowed) {
  if (allowed.lazy_needs_partition && of.lazy_prefetch && !of.partition_parameters) return false;
  return (allowed.partition_parameters || !of.partition_parameters) && (allowed.lazy_prefetch || !of.lazy_prefetch) &&
         (allowed.rematerialize || !of.rematerialize) && (allowed.offload_hidden || !of.offload_hidden) &&
         (allowed.economical_forward || !of.economical_forward) &&
         (allowed.economical_backward || !of.economical_backward) && (allowed.segment_sync || !of.segment_sync);
}

// In the published order: the bits of the members above, the first one the highest. 96 with synchronization free, 48
// with synchronization forced on.
inline constexpr std::size_t kCombinations = 96;
inline constexpr std::size_t kSynchronizedCombinations = 48;
[[nodiscard]] const std::array<LayerSwitches, kCombinations>& all_combinations();
[[nodiscard]] const std::array<LayerSwitches, kSynchronizedCombinations>& synchronized_combinations();

}  // namespace trimtab::tuner::h3t
