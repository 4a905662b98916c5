#pragma once

// What H3T (Wang et al., NeurIPS 2023) measures of one layer: the times of its calls and copies, and the bytes that
// they move and hold. Times are whole nanoseconds, so that sums do not depend on their order. Plain values.

#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::tuner::h3t {

using Ticks = std::int64_t;  // ns

// Of the allocated bytes during one call: what it leaves behind, and the most beyond what was there before.
struct MemoryChange {
  Bytes delta = 0;
  Bytes peak = 0;
  bool operator==(const MemoryChange&) const = default;
};

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

// Fails where a number is negative, a peak is below its own delta, or a layer keeps or frees more over a step than it
// takes (forward_no_grad must leave nothing, forward_with_grad and backward together free the input): the levels that
// the solvers compute in front of a backward pass need that. Names the layer and the field.
[[nodiscard]] Status check_layers(std::span<const LayerProfile> layers);

}  // namespace trimtab::tuner::h3t
