#include "costs/cost_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "json_text.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

// What everybody calls the same: "all_reduce".
bool names_what_all_have(CostKind kind) {
  return kind == CostKind::kCollective || kind == CostKind::kPointToPoint || kind == CostKind::kOverlapComputation ||
         kind == CostKind::kOverlapCommunication || kind == CostKind::kProcessBytes;
}

template <typename... Cells>
std::string csv_line(const Cells&... cells) {
  return joined(std::vector<std::string>{std::string(cells)...}, ",") + "\n";
}

std::string csv_row(const CostRow& row) {
  const CostKey& key = row.cost.key;
  const Statistics& values = row.cost.statistics;
  const auto count = [](auto number) { return std::to_string(number); };
  const auto value = [](double number) { return format_number(number, 3); };
  return csv_line(row.fingerprint, csv_cell(row.source), to_string(key.kind), csv_cell(key.subject),
                  csv_cell(key.dtype), count(key.samples), count(key.tp), csv_cell(key.sharding), count(key.bytes),
                  count(key.group_size), csv_cell(key.placement), unit_of(key.kind), count(values.count()),
                  value(values.mean()), value(std::sqrt(values.variance())), count(values.min()), count(values.max()),
                  value(values.median()), csv_cell(key.algorithm), csv_cell(key.protocol), count(key.channels),
                  csv_cell(key.kernel_class));
}

using Place = std::pair<CostKey, CostSource>;

const Statistics* find(const std::map<Place, const Statistics*>& costs, const Place& place) {
  const auto found = costs.find(place);
  return found == costs.end() ? nullptr : found->second;
}

std::map<Place, const Statistics*> by_place(const std::vector<Cost>& costs) {
  std::map<Place, const Statistics*> result;
  for (const Cost& cost : costs) {
    if (!cost.statistics.empty()) result[{cost.key, cost.source}] = &cost.statistics;
  }
  return result;
}

bool differ(const Statistics& a, const Statistics& b) {
  return std::fabs(a.mean() - b.mean()) > half_interval(a) + half_interval(b);
}

double relative_difference(const CostChange& change) {
  if (change.before == nullptr || change.after == nullptr) return -1;  // sorts last
  const double scale = std::max(std::fabs(change.before->mean()), 1e-12);
  return std::fabs(change.after->mean() - change.before->mean()) / scale;
}

}  // namespace

std::string csv_cell(std::string text) {
  if (!text.empty() && std::string_view("=+-@").find(text.front()) != std::string_view::npos) text.insert(0, 1, '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string format_cost(CostKind kind, double value) {
  const std::string_view unit = unit_of(kind);
  if (unit == "bytes") return format_bytes(std::llround(value));
  if (unit == "ppm") return format_number(value / 1e6, 3);
  return format_duration(Nanoseconds(std::llround(value)));
}

void redact(std::vector<CostRow>& rows) {
  std::map<std::string, std::string> names;
  for (CostRow& row : rows) {
    CostKey& key = row.cost.key;
    if (key.subject.empty() || names_what_all_have(key.kind)) continue;
    const auto [entry, fresh] = names.try_emplace(key.subject);
    if (fresh) entry->second = "redacted-" + std::to_string(names.size());
    key.subject = entry->second;
  }
}

std::string to_csv(const std::vector<CostRow>& rows) {
  std::string text =
      "fingerprint,source,kind,subject,dtype,samples,tp,sharding,bytes,group_size,placement,unit,count,mean,"
      "standard_deviation,min,max,median,algorithm,protocol,channels,kernel_class\n";
  for (const CostRow& row : rows) {
    if (!row.cost.statistics.empty()) text += csv_row(row);
  }
  return text;
}

std::string to_json(const std::vector<CostRow>& rows) {
  json costs = json::array();
  for (const CostRow& row : rows) {
    const Statistics& values = row.cost.statistics;
    if (values.empty()) continue;
    costs.push_back({{"fingerprint", row.fingerprint},
                     {"source", row.source},
                     {"cost", json::parse(to_json(row.cost.key))},
                     {"unit", unit_of(row.cost.key.kind)},
                     {"count", values.count()},
                     {"mean", values.mean()},
                     {"standard_deviation", std::sqrt(values.variance())},
                     {"min", values.min()},
                     {"max", values.max()},
                     {"median", values.median()},
                     {"statistics", values.encode()}});
  }
  return json_text(json{{"schema", "trimtab.costs/1"}, {"costs", std::move(costs)}}, 2) + "\n";
}

std::vector<CostChange> differences(const std::vector<Cost>& before, const std::vector<Cost>& after) {
  const auto old_costs = by_place(before);
  const auto new_costs = by_place(after);
  std::vector<CostChange> changes;
  for (const auto& [place, statistics] : old_costs) {
    const Statistics* now = find(new_costs, place);
    if (now == nullptr || differ(*statistics, *now)) changes.push_back({place.first, place.second, statistics, now});
  }
  for (const auto& [place, statistics] : new_costs) {
    if (find(old_costs, place) == nullptr) changes.push_back({place.first, place.second, nullptr, statistics});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const CostChange& a, const CostChange& b) {
    return relative_difference(a) > relative_difference(b);
  });
  return changes;
}

double half_interval(const Statistics& statistics) {
  return 1.96 * statistics.standard_error();
}

}  // namespace trimtab::cli
