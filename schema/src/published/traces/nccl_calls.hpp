#pragma once

// NCCL's own NVTX ranges, as Nsight Systems records them: which kernel carries out which call, of how many bytes over
// how many ranks. NCCL attaches a payload to each range (src/include/nvtx_payload_schemas.h of NVIDIA/nccl,
// since 2.18): the communicator's number, which all of its ranks know it by, and the bytes of a call. Pure;
// single-threaded.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

// What a range's payload says, as far as it does.
struct NcclPayload {
  std::uint64_t communicator = 0;
  std::int64_t bytes = -1;
  std::int64_t ranks = -1;
};

// How payloads are laid out (NVTX_PAYLOAD_SCHEMAS and NVTX_PAYLOAD_SCHEMA_ENTRIES).
class NcclPayloads {
 public:
  void add_schema(std::int64_t schema, std::int64_t payload_bytes);
  void add_entry(std::int64_t schema, std::string_view name, std::int64_t type, std::int64_t offset);
  // Of NVTX_EVENTS.binaryData. Nothing where it is not of NCCL, or not of the form that is known.
  [[nodiscard]] std::optional<NcclPayload> read(std::string_view blob) const;

 private:
  struct Field {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Schema {
    std::int64_t payload_bytes = -1;
    std::map<std::string, Field, std::less<>> fields;
    bool contradicts = false;  // two of one number
  };
  std::map<std::int64_t, Schema> schemas_;
};

// The ranges of one process.
class NcclCalls {
 public:
  // `name`: "ncclAllReduce", "ncclGroupStart", ... False: it is no range of NCCL.
  bool add(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns, std::int64_t thread,
           const std::optional<NcclPayload>& payload);
  // Of work whose launches are known on the ranges' clock: what was handed out in one call, or at the end of a group of
  // one call, and alone, was of that call. The rank's groups and collectives; the work names its place among them.
  void tell(TracedRank& rank);

 private:
  struct Call {
    std::string name;
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    std::optional<NcclPayload> payload;
  };
  struct Window {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    const Call* call = nullptr;  // null = several
    std::vector<std::size_t> work;
  };
  [[nodiscard]] std::vector<Window> windows();

  std::map<std::int64_t, std::vector<Call>> threads_;
  std::map<std::uint64_t, std::int64_t> ranks_;  // by communicator
};

}  // namespace trimtab::published
