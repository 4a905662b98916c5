#pragma once

// What one rank does right now, for people who watch it and for metrics. A plain value.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock_difference.hpp"
#include "kernels/kernel_signatures.hpp"
#include "records/ring_reader.hpp"
#include "records/step_shares.hpp"

namespace trimtab::agent {

struct RankActivity {
  bool on_device = false;            // from kernels; else from the job's own ranges
  std::uint64_t steps = 0;           // since the process began
  std::optional<std::int64_t> step;  // the latest number, where the job says it
  bool detected = false;             // steps were found by their period
  double confidence = 0;             // of that, 0 ... 1
  std::uint64_t kernels_per_step = 0;
  // Means over the latest steps that were recorded whole; 0 steps_measured: not known.
  std::uint64_t steps_measured = 0;
  double step_seconds = 0;
  double steps_per_second = 0;
  // Of the step's time. The first four add up to 1.
  double computation = 0;
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double overlapped_communication = 0;
  std::vector<StreamShares> streams;  // of the latest step
  double stream_seconds = 0;          // that step's time
  std::vector<BusyKernel> busiest;    // since it was last asked
  double busiest_seconds = 0;         // device time since then
  std::uint64_t steps_left_out = 0;   // not recorded whole, interrupted, or too late
  std::uint64_t windows = 0;          // in which not all was recorded
  CollectorFacts collector;           // what its collectors cost and lose
  std::optional<ClockDifference::Offset>
      gpu_clock;                                 // of the latest collective's GPU, where NCCL's plugin has compared it
  std::map<std::uint16_t, std::string> devices;  // UUIDs, by the numbers that the process gives its devices
};

}  // namespace trimtab::agent
