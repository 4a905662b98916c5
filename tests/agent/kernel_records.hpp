#pragma once

// Records as the injected library writes them, for tests of what folds them.

#include <cstdint>
#include <string_view>

#include "records/ring_reader.hpp"

namespace trimtab::agent::test {

inline constexpr std::uint64_t kMicrosecond = 1000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;

inline RangeRecord kernel(std::string_view name, std::uint32_t correlation, std::uint64_t begin_ns,
                          std::uint64_t end_ns, std::uint32_t stream = 7) {
  RangeRecord record;
  record.kind = record::kKernel;
  record.name = name;
  record.payload = static_cast<std::int64_t>(std::uint64_t{correlation} | std::uint64_t{1} << 32U);
  record.flags = record::kPayloadValid;
  record.begin_ns = begin_ns;
  record.end_ns = end_ns;
  record.thread = stream;
  record.domain_value = 132;
  record.detail = {1, 1, 256, 1, 1, 0, 0};
  return record;
}

inline RangeRecord launch(std::uint32_t correlation, std::uint32_t range) {
  RangeRecord record;
  record.kind = record::kLaunch;
  record.payload = correlation;
  record.domain_value = range;
  return record;
}

inline RangeRecord range(std::string_view name, std::uint32_t id, std::uint64_t begin_ns, std::uint64_t end_ns,
                         std::uint16_t depth = 0, std::int64_t payload = 1) {
  RangeRecord record;
  record.kind = record::kRange;
  record.domain = "trimtab";
  record.name = name;
  record.range = parse_range_name(name);
  record.payload = payload;
  record.flags = record::kPayloadValid;
  record.begin_ns = begin_ns;
  record.end_ns = end_ns;
  record.thread = 100;
  record.depth = depth;
  record.detail[0] = static_cast<std::uint16_t>(id & 0xffffU);
  record.detail[1] = static_cast<std::uint16_t>(id >> 16U);
  return record;
}

inline RangeRecord window(std::uint64_t begin_ns, std::uint64_t end_ns) {
  RangeRecord record;
  record.kind = record::kWindow;
  record.name = "another profiler";
  record.begin_ns = begin_ns;
  record.end_ns = end_ns;
  return record;
}

inline RangeRecord collective(std::string_view function, std::int64_t bytes, std::uint64_t begin_ns,
                              std::uint64_t end_ns, std::uint16_t ranks = 8, std::uint16_t channels = 24) {
  RangeRecord record;
  record.kind = record::kCollective;
  record.name = function;
  record.payload = bytes;
  record.flags = record::kPayloadValid;
  record.begin_ns = begin_ns;
  record.end_ns = end_ns;
  record.depth = channels;
  record.detail = {ranks, 0, 1, 1, 1, 9, 0};  // ring, LL128
  return record;
}

}  // namespace trimtab::agent::test
