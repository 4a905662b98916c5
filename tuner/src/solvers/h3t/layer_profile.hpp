#pragma once

// What H3T (Wang et al., NeurIPS 2023) measures of one layer: the times of its calls and copies, and the bytes that
// they move and hold. Times are whole nanoseconds, so that sums do not depend on their order. Plain values.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/units.hpp"

namespace trimtab::tuner::h3t {

using Ticks = std::int64_t;  // ns

// Of the allocated bytes during one call: what it leaves behind, and the most beyond what was there before.
struct MemoryChange {
  Bytes delta = 0;
  Bytes peak = 0;
  bool operator==(const MemoryChange&) const = default;
};

// A layer that can be has no negative number, no peak below its own delta, and keeps and frees over a step what it
// takes: forward_no_grad leaves nothing, forward_with_grad and backward together free the input. The levels that the
// solvers compute in front of a backward pass need that.
struct LayerProfile {
  Ticks optimizer_step = 0;     // on the host
  Ticks forward_no_grad = 0;    // keeps nothing
  Ticks forward_with_grad = 0;  // keeps what the backward pass needs
  Ticks backward = 0;
  Ticks prefetch_hidden = 0;  // host to device; offload is device to host
  Ticks offload_hidden = 0;
  Ticks prefetch_parameters = 0;
  Ticks gather_parameters = 0;  // among devices
  Ticks scatter_gradients = 0;
  Ticks offload_gradients = 0;

  Bytes input = 0;  // the hidden state that enters
  Bytes partitioned_parameters = 0;
  Bytes gathered_parameters = 0;
  Bytes partitioned_gradients = 0;
  Bytes gathered_gradients = 0;
  MemoryChange no_grad, with_grad, backward_change;
  Bytes host_bytes = 0;  // of one rank, whatever the switches: states, parameters and gradients of the CPU optimizer

  bool operator==(const LayerProfile&) const = default;
};

// H3T's seven switches of a layer, and their valid combinations. Plain values.
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

// A bit for each, the first one the highest.
[[nodiscard]] constexpr std::uint8_t code_of(const LayerSwitches& of) {
  unsigned code = 0;
  for (const bool one : {of.partition_parameters, of.lazy_prefetch, of.rematerialize, of.offload_hidden,
                         of.economical_forward, of.economical_backward, of.segment_sync}) {
    code = code << 1U | (one ? 1U : 0U);
  }
  return static_cast<std::uint8_t>(code);
}
// Of what is allowed: other numbers for other sets.
[[nodiscard]] constexpr std::uint8_t code_of(const AllowedSwitches& allowed) {
  const auto on = static_cast<const LayerSwitches&>(allowed);
  return static_cast<std::uint8_t>(code_of(on) | (allowed.lazy_needs_partition ? 0x80U : 0U));
}
[[nodiscard]] constexpr LayerSwitches switches_of(unsigned code) {
  const auto bit = [code](unsigned position) { return (code >> position & 1U) != 0; };
  return {bit(6), bit(5), bit(4), bit(3), bit(2), bit(1), bit(0)};
}

[[nodiscard]] constexpr bool is_within(const LayerSwitches& of, const AllowedSwitches& allowed) {
  if (allowed.lazy_needs_partition && of.lazy_prefetch && !of.partition_parameters) return false;
  return (code_of(of) & ~code_of(allowed)) == 0;
}

// In the published order, of codes. 96 with synchronization free, 48
// with synchronization forced on.
inline constexpr std::size_t kCombinations = 96;
inline constexpr std::size_t kSynchronizedCombinations = 48;
[[nodiscard]] const std::array<LayerSwitches, kCombinations>& all_combinations();
[[nodiscard]] const std::array<LayerSwitches, kSynchronizedCombinations>& synchronized_combinations();

}  // namespace trimtab::tuner::h3t
