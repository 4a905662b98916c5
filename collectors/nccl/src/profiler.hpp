#pragma once

// The profiler plugin: NCCL's calls, given to the collector, the detail control and the plugin behind ours. Every call
// returns success, whatever happens: a profiler never fails a communicator.

#include "abi.hpp"
#include "collector.hpp"

namespace trimtab::nccl {}  // namespace trimtab::nccl

// What NCCL looks for by name.
extern "C" {
extern const trimtab::nccl::ProfilerV4 ncclProfiler_v4 __attribute__((visibility("default")));
extern const trimtab::nccl::ProfilerV5 ncclProfiler_v5 __attribute__((visibility("default")));
}

namespace trimtab::nccl {

// Any thread.
[[nodiscard]] const CollectorCounters& collector_counters();

}  // namespace trimtab::nccl
