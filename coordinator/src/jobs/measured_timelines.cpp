#include "jobs/measured_timelines.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "schema/json_nesting.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBars = 4096;
// The longest kind's name and two numbers of 20 digits, with what stands around them.
constexpr std::size_t kMaxBarBytes = 64;
constexpr std::size_t kMaxBytes = kMaxBars * kMaxBarBytes;
constexpr std::size_t kLevels = 2;
// Beginnings of one step further apart than this are clocks of different nodes.
constexpr std::uint64_t kSameClockNs = 10'000'000'000;

bool is_bar(const json& bar) {
  return bar.is_array() && bar.size() == 3 && bar[0].is_string() && bar[1].is_number_unsigned() &&
         bar[2].is_number_unsigned() && bar[1].get<std::uint64_t>() <= bar[2].get<std::uint64_t>() &&
         timeline_kind_named(bar[0].get_ref<const std::string&>());
}

// Its tree takes many times its bytes, so both bounds come before it is built.
json parse_bars(const std::string& bars_json) {
  if (bars_json.size() > kMaxBytes || !json_nested_within(bars_json, kLevels)) return json::value_t::discarded;
  return json::parse(bars_json, nullptr, false);
}

double milliseconds(const json& nanoseconds) {
  return static_cast<double>(nanoseconds.get<std::uint64_t>()) / 1e6;
}

}  // namespace

Status MeasuredTimelines::add(const PlanText& plan, std::int32_t rank, std::uint64_t begin_ns,
                              const std::string& bars_json) {
  const json bars = parse_bars(bars_json);
  if (!bars.is_array() || bars.size() > kMaxBars || !std::ranges::all_of(bars, is_bar)) {
    return bad_input("a timeline must be a list of at most 4096 [kind, begin_ns, end_ns], in at most " +
                     std::to_string(kMaxBytes) + " bytes");
  }
  auto known = plans_.find(plan.hash);
  if (known == plans_.end()) {
    known = plans_.try_emplace(plan.hash).first;
    const Plan* const drawn = plan.said();
    for (const Stage& stage : drawn != nullptr ? drawn->stages : std::vector<Stage>{}) {
      known->second.push_back({stage.devices.front(), 0, {}});
    }
  }
  const auto drawn = std::ranges::find(known->second, rank, &Picture::rank);
  if (drawn == known->second.end()) return {};
  drawn->begin_ns = begin_ns;
  drawn->bars.clear();
  for (const json& bar : bars) {
    drawn->bars.push_back(
        {*timeline_kind_named(bar[0].get_ref<const std::string&>()), milliseconds(bar[1]), milliseconds(bar[2])});
  }
  return {};
}

void MeasuredTimelines::keep(const std::function<bool(const std::string& hash)>& wanted) {
  std::erase_if(plans_, [&wanted](const auto& plan) { return !wanted(plan.first); });
}

std::size_t MeasuredTimelines::pictures() const {
  std::size_t count = 0;
  for (const auto& [hash, stages] : plans_) {
    for (const Picture& picture : stages) count += picture.bars.empty() ? 0 : 1;
  }
  return count;
}

api::Timeline MeasuredTimelines::timeline(const std::string& hash) const {
  const auto known = plans_.find(hash);
  if (known == plans_.end()) return {};
  const std::vector<Picture>& stages = known->second;
  if (std::ranges::any_of(stages, [](const Picture& one) { return one.bars.empty(); })) return {};
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const Picture& picture : stages) first = std::min(first, picture.begin_ns);
  api::Timeline bars;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::uint64_t late = stages[stage].begin_ns - first;
    const double offset = late < kSameClockNs ? static_cast<double>(late) / 1e6 : 0.0;
    for (const Bar& bar : stages[stage].bars) {
      bars.push_back({static_cast<std::int64_t>(stage), bar.kind, -1, bar.begin_ms + offset, bar.end_ms + offset});
    }
  }
  return bars;
}

}  // namespace trimtab::coordinator
