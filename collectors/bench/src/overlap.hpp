#pragma once

// How much a computation and a communication slow each other down while both run on one GPU: α and β.
//
// In each repetition, one after the other: A alone, B alone, A while a longer B runs, B while a longer A runs, and A
// alone again. α = A disturbed / A alone and β = B disturbed / B alone, paired within the repetition; the second A
// alone over the first is the noise floor. What is left out: repetitions whose cover ended too early, and those off the
// median clock.
//
// What this does not measure: links, NVLS and waiting for other ranks. A ChannelKernel stands for a collective's thread
// blocks and memory traffic only.

#include <cstdint>
#include <string>
#include <vector>

#include "device.hpp"
#include "repetition.hpp"

namespace trimtab::bench {

// One pair: A computes, on the low-priority stream; B communicates, on the other.
struct OverlapCase {
  std::string kernel_class;  // of the computation; empty: a whole operator, forward and backward
  std::string primitive;     // of the communication: "channel_memory", "host_to_device", "all_reduce", ...
  std::int64_t bytes = 0;    // of one communication
  std::int32_t channels = 0;
  std::int32_t group_size = 0;
  Chain computation;
  Chain communication;
};

struct OverlapSettings {
  std::int32_t repetitions = 40;  // valid ones that are aimed at
  std::int32_t minimum = 30;      // fewer than these are no result
};

struct OverlapResult {
  Estimate computation;    // α
  Estimate communication;  // β
  Estimate noise;          // A alone over A alone
  std::vector<double> computation_ratios;
  std::vector<double> communication_ratios;
  double computation_alone_ns = 0;
  double communication_alone_ns = 0;
  std::size_t discarded_covers = 0;  // repetitions in which a cover did not last
  Conditions conditions;
};

[[nodiscard]] Result<OverlapResult> measure_overlap(const OverlapCase& one, const OverlapSettings& settings,
                                                    Device& device, Ranks& ranks, Random& random);

// Whether `cover` ran for all of `covered`, but for `tolerance` of its length at the start.
[[nodiscard]] bool covers(const Span& cover, const Span& covered, double tolerance = 0.02);

}  // namespace trimtab::bench
