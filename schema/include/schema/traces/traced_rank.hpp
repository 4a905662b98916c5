#pragma once

// What a profiler recorded of one rank, as plain values: what its device did, when its steps were, when it waited for
// data. Times are nanoseconds on the rank's own clock, counted from the earliest of them. Read by read_traces()
// (schema/traces/read_traces.hpp), made into a verdict card by the coordinator's library `card`.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/api/facts.hpp"
#include "schema/traces/traced_collective.hpp"

namespace trimtab {

enum class TracedKind : std::uint8_t {
  kComputation,
  kCopy,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSendReceive,
  kCollective,  // one whose name is not told
};
inline constexpr std::size_t kTracedKinds = static_cast<std::size_t>(TracedKind::kCollective) + 1;
[[nodiscard]] constexpr bool communicates(TracedKind kind) {
  return kind >= TracedKind::kAllReduce;
}
// "computation", "copy", else the cost kinds' names: "all_reduce", ..., "collective".
[[nodiscard]] std::string_view to_string(TracedKind kind);
// Of such a name of a collective; what is not known is kCollective.
[[nodiscard]] TracedKind communication_named(std::string_view primitive);

// One kernel, copy or collective; of a trace without a device, one operator.
struct TracedWork {
  static constexpr std::int64_t kNotTold = -1;

  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;              // not before begin_ns
  std::int64_t launched_ns = kNotTold;  // when the host handed it out
  TracedKind kind = TracedKind::kComputation;
  std::uint32_t collective = 0;  // its place among the rank's collectives, counted from 1; 0 = says no size
};

// On the host.
struct TracedStep {
  std::int64_t number = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
struct TracedSpan {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

enum class Profiler : std::uint8_t { kPyTorch, kNsight };
[[nodiscard]] std::string_view to_string(Profiler profiler);  // "PyTorch Profiler", "Nsight Systems"

struct TracedRank {
  std::string file;  // for messages
  Profiler profiler = Profiler::kPyTorch;
  std::optional<std::int32_t> rank;  // by the trace, else by the file's name
  std::string node;                  // its host's name; may be empty
  std::int64_t world_size = 0;       // 0 = not told
  api::RankFacts facts;              // device, its name, memory, workers: as far as told
  bool on_device = false;            // `work` is a device's; else the host's operators
  std::vector<TracedWork> work;      // by their beginnings
  std::vector<TracedStep> steps;     // by their beginnings, apart from each other; empty = the trace marks none
  std::vector<TracedSpan> data;      // waiting for the next batch, by their beginnings
  std::vector<std::string> remarks;  // what it does not tell
  // Of the communication in `work` what says its size, by its beginning. Costs are made of these.
  std::vector<TracedGroup> groups;
  std::vector<TracedCollective> collectives;
  std::size_t sizeless = 0;        // communication that says no size
  std::string library_version;     // NCCL's, of a trace that says it
  std::int64_t devices_there = 0;  // that the process saw on its node; 0 = not told
};

// How ranks are called: as they say, where all say it; else in their order.
struct RankNumbers {
  std::vector<std::int32_t> numbers;  // as the ranks given
  bool counted = false;
};
// Refused: two of one number, by their files.
[[nodiscard]] Result<RankNumbers> number_ranks(const std::vector<TracedRank>& ranks);

}  // namespace trimtab
