#pragma once

// A range as the job opens it (docs/protocols.md, "Ranges").

#include <cstdint>
#include <string_view>

#include "records/ring_reader.hpp"

namespace trimtab::agent {

inline RangeRecord range(std::string_view name, std::uint64_t begin, std::uint64_t end, std::int64_t payload = 0) {
  RangeRecord record;
  record.name = name;
  record.domain = "trimtab";
  record.range = parse_range_name(name);
  record.begin_ns = begin;
  record.end_ns = end;
  record.payload = payload;
  return record;
}

}  // namespace trimtab::agent
