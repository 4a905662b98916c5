#pragma once

// Costs for people and for other programs. Pure.

#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::cli {

// A value in its kind's unit: "1.23 ms", "64.0 MiB", "0.12" (of ppm).
[[nodiscard]] std::string format_cost(CostKind kind, double value);

// Replaces what names somebody's work (operators, kernels, ranges, plans) by "redacted-1", "redacted-2", in order of
// appearance: equal names stay equal. The names of collectives stay.
void redact(std::vector<CostRow>& rows);

// A cell as in RFC 4180: quoted where a comma, a quote or a line break stands inside. A leading sign that a spreadsheet
// would run as a formula gets an apostrophe.
[[nodiscard]] std::string csv_cell(std::string text);
[[nodiscard]] std::string to_csv(const std::vector<CostRow>& rows);
[[nodiscard]] std::string to_json(const std::vector<CostRow>& rows);

// A cost of one source that differs between two databases by more than both intervals allow, or that only one of them
// has.
struct CostChange {
  CostKey key;
  CostSource source;
  const Statistics* before = nullptr;  // null = absent there
  const Statistics* after = nullptr;
};
// Largest relative difference first, then what only one has. The result borrows from both arguments.
[[nodiscard]] std::vector<CostChange> differences(const std::vector<Cost>& before, const std::vector<Cost>& after);

// 95 % interval of the mean, half its width.
[[nodiscard]] double half_interval(const Statistics& statistics);

}  // namespace trimtab::cli
