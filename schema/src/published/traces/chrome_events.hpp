#pragma once

// The events of a chrome trace (the "Trace Event Format" in JSON), one at a time, with those members that PyTorch
// Profiler gives a meaning. Streams: only the event at hand is in memory.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "published/traces/byte_source.hpp"

namespace trimtab::published {

struct ChromeEvent {
  static constexpr std::int64_t kNotTold = -1;

  std::string name;
  std::string category;
  std::string phase;
  bool has_begin = false;
  std::int64_t begin_ns = 0;
  std::int64_t duration_ns = 0;
  // Of its "args".
  std::int64_t correlation = kNotTold;
  std::int64_t device = kNotTold;
  std::int64_t stream = kNotTold;
  std::int64_t device_type = kNotTold;
  std::int64_t total_reserved = kNotTold;  // bytes
  std::string collective;                  // "Collective name"
  // Likewise, of what communicates.
  std::string dtype;
  std::string group_name;
  std::string group_ranks;  // "[0, 1, 2, ...]"
  std::int64_t in_elements = kNotTold;
  std::int64_t out_elements = kNotTold;
  std::int64_t group_size = kNotTold;
  std::int64_t sequence = kNotTold;
  std::int64_t source_rank = kNotTold;
  std::int64_t target_rank = kNotTold;
  // "Input Dims" and "Input type", of Gloo's and MPI's alone.
  std::int64_t input_elements = kNotTold;
  std::string input_type;
};

// Whether it is what a collective of Gloo, MPI, UCC or NCCL is called on the host: "gloo:all_reduce".
[[nodiscard]] bool is_backend_range(std::string_view name);

struct ChromeDevice {
  std::string name;
  std::int64_t memory_bytes = 0;
};

// What stands beside the events.
struct ChromeTrace {
  std::vector<std::string> members;  // names of the first ones of the document; empty = it is a list
  bool has_events = false;           // "traceEvents", or a list of objects
  std::uint64_t events = 0;
  std::map<std::int64_t, ChromeDevice> devices;  // "deviceProperties"
  std::int64_t rank = ChromeEvent::kNotTold;     // "distributedInfo"
  std::int64_t world_size = 0;
  std::int64_t groups = ChromeEvent::kNotTold;  // likewise: process groups
  std::string nccl_version;                     // likewise
  std::string host_name;
};

// Times beyond this are no times of a trace: sums of two stay within 64 bits.
inline constexpr std::int64_t kLatestNs = std::int64_t{1} << 61;

// The error says where the text is malformed, and has no file's name.
[[nodiscard]] Result<ChromeTrace> read_chrome_trace(ByteSource& source,
                                                    const std::function<Status(const ChromeEvent&)>& sink);

}  // namespace trimtab::published
