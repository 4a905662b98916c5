#include "commands/benchmark_output.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "processes/printable_text.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab::agent {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxErrors = 1000;
constexpr std::size_t kMaxErrorBytes = 1000;
constexpr std::size_t kMaxValues = 100'000;
constexpr std::int64_t kLargestValue = std::int64_t{1} << 60;  // Statistics::add caps there.

std::optional<std::uint32_t> item_of(const Json& json, const char* name, std::uint32_t items) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto item = found->get<std::uint64_t>();
  return item < items ? std::optional(static_cast<std::uint32_t>(item)) : std::nullopt;
}

// The values all at once or not at all.
std::optional<std::vector<std::int64_t>> values_of(const Json& json) {
  const auto found = json.find("values");
  if (found == json.end() || !found->is_array() || found->empty() || found->size() > kMaxValues) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const auto& value : *found) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{kLargestValue}) return std::nullopt;
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

bool is_slowdown(CostKind kind) {
  return kind == CostKind::kOverlapComputation || kind == CostKind::kOverlapCommunication;
}

// A benchmark runs one item at a time. The clock is what the line says, or not said.
std::optional<CostSource> source_of(const Json& json, CostKind kind) {
  CostSource source;
  if (!is_slowdown(kind)) source.beside = CostSource::Beside::kNothing;
  const auto clock = json.find("clock");
  if (clock == json.end()) return source;
  if (*clock != "host" && *clock != "device") return std::nullopt;
  source.clock = *clock == "host" ? CostSource::Clock::kHost : CostSource::Clock::kDevice;
  return source;
}

}  // namespace

Result<std::uint32_t> count_items(std::string_view requests_json) {
  const Json json = Json::parse(requests_json, nullptr, false);
  if (!json.is_object() || !json.contains("items") || !json["items"].is_array()) {
    return bad_input("a benchmark needs a trimtab.benchmark_requests/1 document with a list of items");
  }
  return static_cast<std::uint32_t>(json["items"].size());
}

void BenchmarkFold::line(std::uint32_t rank, std::string_view text) {
  if (text.empty() || text.front() != '{') return;
  if (!json_nested_within(text)) return reject("a line is " + json_nesting_refusal());
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return;
  if (json.contains("item_done")) {
    const auto item = item_of(json, "item_done", items_);
    return item ? finished(rank, *item) : reject("item_done is not an item of the request");
  }
  if (!json.contains("item")) return;  // somebody's JSON log
  const auto item = item_of(json, "item", items_);
  if (!item) return reject("item is not an item of the request");
  if (const auto error = json.find("error"); error != json.end()) {
    if (!error->is_string()) return reject("error is not a text");
    const std::string message = error->get<std::string>().substr(0, kMaxErrorBytes);
    if (errors_.size() < kMaxErrors) errors_.push_back({*item, rank, printable_text(message)});
    return finished(rank, *item);
  }
  const auto cost = json.find("cost");
  if (cost == json.end() || !cost->is_object()) return reject("an item line has neither cost nor error");
  const auto key = parse_cost_key(cost->dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!key.ok()) return reject(key.error().message);
  const auto values = values_of(json);
  if (!values) return reject("values must be a list of whole numbers from 0 to 2^60");
  const auto source = source_of(json, key->kind);
  if (!source) return reject("clock must be \"host\" or \"device\"");
  const std::pair place{*key, *source};
  if (!costs_.contains(place) && costs_.size() >= kMaxCosts) return reject("there are too many different costs");
  for (const auto value : *values) costs_[place].add(value);
}

std::uint32_t BenchmarkFold::items_done() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(done_, [&](const auto& entry) { return entry.second.size() >= ranks_; }));
}

std::vector<Cost> BenchmarkFold::costs() const {
  std::vector<Cost> costs;
  for (const auto& [place, statistics] : costs_) {
    costs.push_back({place.first, statistics, place.second});
    CostSource& source = costs.back().source;
    source.covered = source.clock == CostSource::Clock::kDevice && tells_launch_of(place.first);
  }
  return costs;
}

// In whatever way: its protocol comes last among keys of one launch.
bool BenchmarkFold::tells_launch_of(const CostKey& key) const {
  if (key.is_launch()) return false;
  const auto found = costs_.lower_bound({key.launch(), CostSource()});
  return found != costs_.end() && found->first.first.is_launch() && found->first.first.launched() == key;
}

void BenchmarkFold::finished(std::uint32_t rank, std::uint32_t item) {
  done_[item].insert(rank);
}

}  // namespace trimtab::agent
