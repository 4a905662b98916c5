#pragma once

// The file of benchmark requests, checked, and the lines that answer it (docs/protocols.md, "The benchmark command").
// Pure.

#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"
#include "repetition.hpp"

namespace trimtab::bench {

struct Requests {
  Precision precision;
  std::vector<Json> items;  // objects; their fields are read, and refused, one by one when they are measured
};

[[nodiscard]] Result<Requests> parse_requests(std::string_view text, std::string_view source);

// A field of an item. The error names the field and what was found.
[[nodiscard]] Result<std::int64_t> positive(const Json& item, std::string_view name);
[[nodiscard]] Result<std::int64_t> positive_or(const Json& item, std::string_view name, std::int64_t otherwise);
[[nodiscard]] Result<std::string> text(const Json& item, std::string_view name);
[[nodiscard]] Result<std::string> text_or(const Json& item, std::string_view name, std::string_view otherwise);

// The fields that name a cost; empty and 0 are left out. Field names and meanings are those of docs/protocols.md.
struct CostName {
  std::string kind;
  std::string subject;
  std::string dtype;
  std::int64_t samples = 0;
  std::int64_t tp = 0;
  std::int64_t bytes = 0;
  std::int64_t group_size = 0;
  std::string placement;
  std::string kernel_class;
  std::int64_t channels = 0;
};

struct Measured {
  CostName name;
  std::vector<double> values;  // in the kind's unit
};

// {"item": 0, "cost": {...}, "values": [...]}: values rounded to whole numbers, at least 0.
[[nodiscard]] std::string cost_line(std::size_t item, const Measured& measured);
[[nodiscard]] std::string done_line(std::size_t item);
[[nodiscard]] std::string error_line(std::size_t item, std::string_view why);

}  // namespace trimtab::bench
