#pragma once

// The lines that a benchmark command prints (docs/protocols.md, "The benchmark command"). Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::bench {

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
