#pragma once

// What a profiler says of one collective, or one send or receive, beside when its kernel ran. How NCCL ran it nobody
// says: one kernel, named after one algorithm and protocol, carries out others, too. Plain values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schema/cost_source.hpp"

namespace trimtab {

// The ranks that took part, as the trace says it.
struct TracedGroup {
  std::string name;                 // equal on all of its ranks
  std::vector<std::int32_t> ranks;  // of the job, in order; not all of them where the trace cuts the list short
  std::int32_t size = 0;

  auto operator<=>(const TracedGroup&) const = default;
};

struct TracedCollective {
  static constexpr std::int64_t kNotTold = -1;

  std::string_view primitive;  // the cost kinds' name: "all_reduce", "send_recv"
  std::string_view algorithm;  // "ring"; empty = not told, like the next
  std::string_view protocol;   // "ll"
  std::string_view dtype;      // as documents call it: "bfloat16"; empty = not told
  std::int64_t bytes = 0;      // a rank's input, as in a cost key
  std::int64_t duration_ns = 0;
  std::int64_t step = kNotTold;      // that handed it out
  std::int64_t sequence = kNotTold;  // in its group
  std::int32_t peer = kNotTold;      // of a send or receive: the other rank of the job
  bool sends = false;
  std::uint32_t group = 0;  // its place among the rank's groups
  CostSource::Beside beside = CostSource::Beside::kNotSaid;
};

// A type's name in documents, and the bytes of an element, by PyTorch's names ("BFloat16", "c10::BFloat16",
// "bfloat16").
struct TracedType {
  std::string_view name;
  std::int64_t bytes = 0;  // 0 = not known
};
[[nodiscard]] TracedType traced_type(std::string_view name);

// Whether all ranks of such a collective give and take as much, so that they end within a hop of each other and the
// last to come is in it for the whole transfer.
[[nodiscard]] bool ends_together(std::string_view primitive);
// A rank's input, of what a call of NCCL counts: a rank's part. That is what each gives to an all-gather, gets of a
// reduce-scatter, and gives to every other one in an all-to-all.
[[nodiscard]] std::int64_t bytes_of_count(std::string_view primitive, std::int64_t counted, std::int64_t ranks);

}  // namespace trimtab
