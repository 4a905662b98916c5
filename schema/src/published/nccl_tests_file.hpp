#pragma once

// The JSON that nccl-tests write with -J FILE (NVIDIA/nccl-tests, src/util.cu; file versions 1 to 3).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"

namespace trimtab::published {

// One size of one run, in or out of place or both.
struct NcclTestsRow {
  std::int64_t size = 0;                  // "size": bytes of the larger of a rank's two buffers
  std::string dtype;                      // as in documents: "float32"
  std::vector<std::int64_t> nanoseconds;  // one mean for each place; every iteration where the file has them
};

struct NcclTestsFile {
  CostKind kind = CostKind::kCollective;
  std::string primitive;  // "all_reduce"; "send_recv" with kPointToPoint
  std::string gpu;        // one model for all
  std::string nccl;       // "2.28.9"
  std::int32_t group_size = 0;
  std::int32_t nodes = 0;                          // on which a group's ranks are
  std::int32_t ranks_per_node = 0;                 // the most of a group
  std::map<std::string, std::string> environment;  // NCCL's variables that change times
  std::vector<NcclTestsRow> rows;
  std::vector<std::string> remarks;
};

// Refused, with file and field: another program's file, a newer version, a run that did not end or gave wrong results,
// CPU times (-C), grouped operations (-m), GPUs of several models, several reductions, groups of unequal size.
[[nodiscard]] Result<NcclTestsFile> parse_nccl_tests(std::string_view text, std::string_view source);

}  // namespace trimtab::published
