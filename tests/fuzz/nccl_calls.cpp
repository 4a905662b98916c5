// NVTX ranges of NCCL with their payloads, as an export of Nsight Systems holds them: a layout, then ranges, then the
// kernels that they are to be found for. Every kernel that is told a size names one collective of a group of some size.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "published/traces/nccl_calls.hpp"
#include "target.hpp"

using namespace trimtab;

namespace {

constexpr std::array<std::string_view, 4> kFields{"NCCL communicator ID", "Message size [bytes]", "No. of ranks",
                                                  "Rank"};
constexpr std::array<std::string_view, 8> kNames{"ncclGroupStart", "ncclGroupEnd",      "ncclAllReduce",
                                                 "ncclAllGather",  "ncclReduceScatter", "ncclSend",
                                                 "forward",        "ncclCommInitRank"};

void check(const TracedRank& rank) {
  for (const TracedWork& work : rank.work) {
    if (work.collective == 0) continue;
    const bool there = work.collective <= rank.collectives.size() && communicates(work.kind);
    const TracedCollective one = there ? rank.collectives[work.collective - 1] : TracedCollective{};
    if (there && one.group < rank.groups.size() && rank.groups[one.group].size > 0 && one.bytes > 0) continue;
    std::fprintf(stderr, "a kernel is told a collective that is none\n");
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Script script(data, size);
  published::NcclPayloads payloads;
  for (int left = script.byte() % 16; left > 0; --left) {
    const std::int64_t schema = script.byte();
    const std::string_view field = kFields[script.byte() % kFields.size()];
    const std::int64_t type = script.byte();
    payloads.add_entry(schema, field, type, script.byte());
    payloads.add_schema(schema, script.byte());
  }
  published::NcclCalls calls;
  for (int left = script.byte(); left > 0 && !script.ended(); --left) {
    const std::string_view name = kNames[script.byte() % kNames.size()];
    const std::int64_t begin = script.byte();
    const std::int64_t end = begin + script.byte();
    const std::int64_t thread = script.byte() % 3;
    calls.add(name, begin, end, thread, payloads.read(script.bytes(script.byte())));
  }
  TracedRank rank;
  while (!script.ended() && rank.work.size() < 256) {
    const std::int64_t launched = script.byte();
    const auto kind = static_cast<TracedKind>(script.byte() % kTracedKinds);
    rank.work.push_back({launched + 10, launched + 20, launched, kind});
  }
  calls.tell(rank);
  check(rank);
  if (!rank.collectives.empty()) fuzz::understood();
  return 0;
}
