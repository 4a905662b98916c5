#pragma once

// From measured costs of collectives to what NCCL is told to do: for each function, number of ranks and placement, the
// algorithm, protocol and channels that took the least time, by size. Pure; the same costs give the same choices on any
// machine.
//
// A size gets a choice only where at least two ways were measured there, each often enough: with one there is nothing
// to choose, and NCCL's own choice is what was measured. Between two measured sizes the border is their geometric mean;
// beyond the outermost ones a choice reaches half and double, no further. Channels are named only where the fastest way
// was measured with several numbers of them.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "schema/nccl.hpp"

namespace trimtab {

struct NcclChoice {
  nccl::Function function = nccl::kAllReduce;
  std::uint32_t ranks = 0;
  bool one_node = true;
  std::uint64_t min_bytes = 0;  // as NCCL counts: the larger of what a rank sends and receives
  std::uint64_t max_bytes = 0;  // inclusive
  nccl::Algorithm algorithm = nccl::kRing;
  nccl::Protocol protocol = nccl::kSimple;
  std::uint8_t channels = 0;  // 0 = as many as NCCL wants

  auto operator<=>(const NcclChoice&) const = default;
};

struct NcclChoiceOptions {
  std::uint64_t min_values = 10;  // of a way at a size
};

// Sorted as schema/nccl_table.hpp wants them. Costs of other kinds, and collectives whose algorithm is not known, do
// not matter.
[[nodiscard]] std::vector<NcclChoice> nccl_choices(const std::vector<Cost>& costs, NcclChoiceOptions options = {});

// The file for the tuner plugin. REQUIRES: choices of nccl_choices(), at most nccl::kMaxTableEntries.
[[nodiscard]] std::string encode_nccl_table(const std::vector<NcclChoice>& choices, std::uint64_t epoch);
// The id that a file says it has, as 16 hexadecimal digits: what the launch carries beside it. The error says what is
// wrong with the file.
[[nodiscard]] Result<std::string> nccl_table_id(const std::string& file);

// NVIDIA's public format, as its example tuner plugin reads it: collective_type, min_bytes, max_bytes, algorithm,
// protocol, channels, nNodes, nRanks, numPipeOps, regBuff; -1 = any. The format cannot say "several nodes": such lines
// have nNodes -1, and stand after those of one node.
[[nodiscard]] std::string to_nccl_tuner_csv(const std::vector<NcclChoice>& choices);

}  // namespace trimtab
