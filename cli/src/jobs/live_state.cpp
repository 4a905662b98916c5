#include "jobs/live_state.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/numbers.hpp"
#include "jobs/progress.hpp"
#include "jobs/reply_document.hpp"
#include "json_text.hpp"
#include "plans/plan_text.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr std::size_t kMostRanks = 32;
constexpr std::size_t kMostKernels = 8;
constexpr std::size_t kMostStreams = 24;
constexpr std::size_t kLongestName = 72;

BusyKernel kernel_of(const json& object) {
  BusyKernel kernel;
  take(object, "name", kernel.name);
  take(object, "class", kernel.kernel_class);
  take(object, "collective", kernel.collective);
  take(object, "share", kernel.share);
  take(object, "count", kernel.count);
  take(object, "mean_us", kernel.mean_us);
  return kernel;
}

LiveStream stream_of(const json& object) {
  LiveStream stream;
  take(object, "stream", stream.stream);
  take(object, "computation", stream.computation);
  take(object, "communication", stream.communication);
  take(object, "copy", stream.copy);
  return stream;
}

bool receives(const BusyKernel& kernel) {
  return kernel.name == "transfer/recv" || kernel.name.starts_with("ncclDevKernel_SendRecv");
}

LiveRank rank_of(const json& object) {
  LiveRank rank;
  take(object, "rank", rank.rank);
  take(object, "node", rank.node);
  take(object, "source", rank.source);
  take(object, "step_found_by", rank.step_found_by);
  take(object, "confidence", rank.confidence);
  take(object, "steps", rank.steps);
  take(object, "steps_measured", rank.steps_measured);
  take(object, "steps_left_out", rank.steps_left_out);
  take(object, "step_ms", rank.step_ms);
  take(object, "steps_per_second", rank.steps_per_second);
  take(object, "age_s", rank.age_s);
  if (object.contains("step")) rank.step = object["step"].get<std::int64_t>();
  const json shares = object.value("shares", json::object());
  take(shares, "computation", rank.computation);
  take(shares, "exposed_communication", rank.exposed_communication);
  take(shares, "exposed_copy", rank.exposed_copy);
  take(shares, "idle", rank.idle);
  take(shares, "overlapped_communication", rank.overlapped_communication);
  const json streams = object.value("streams", json::array());
  for (const json& stream : streams) rank.streams.push_back(stream_of(stream));
  const json busiest = object.value("busiest", json::array());
  for (const json& kernel : busiest) rank.busiest.push_back(kernel_of(kernel));
  for (const BusyKernel& kernel : rank.busiest) {
    if (receives(kernel)) rank.receiving = rank.receiving.value_or(0) + kernel.share;
  }
  return rank;
}

std::string percent(double share) {
  return format_fixed(100 * share, 1) + " %";
}

std::string found_by(const LiveRank& rank) {
  std::string text = rank.source;
  if (rank.step_found_by == "period") text += ", step found (" + format_fixed(rank.confidence, 2) + ")";
  return rank.age_s > 3 ? text + ", " + format_fixed(rank.age_s, 0) + " s ago" : text;
}

double busy_share(const LiveStream& stream) {
  return stream.computation + stream.communication + stream.copy;
}

std::string streams_text(const std::vector<LiveRank>& ranks) {
  TextTable table({{"rank", true}, {"stream", true}, {"compute", true}, {"communication", true}, {"copies", true}});
  std::size_t shown = 0;
  std::size_t all = 0;
  for (const LiveRank& rank : ranks) {
    std::vector<LiveStream> streams = rank.streams;
    std::ranges::stable_sort(streams, std::greater(), busy_share);
    for (const LiveStream& stream : streams) {
      if (all++ >= kMostStreams) continue;
      ++shown;
      table.add({std::to_string(rank.rank), std::to_string(stream.stream), percent(stream.computation),
                 percent(stream.communication), percent(stream.copy)});
    }
  }
  if (table.empty()) return "";
  return "\n" + table.str() + (all > shown ? "and " + std::to_string(all - shown) + " more\n" : "");
}

// Of all ranks together: means of the shares.
std::string busiest_text(const std::vector<LiveRank>& ranks, bool collectives) {
  std::map<std::string, BusyKernel> sums;
  for (const LiveRank& rank : ranks) {
    for (const BusyKernel& kernel : rank.busiest) {
      if (kernel.collective != collectives) continue;
      BusyKernel& sum = sums[kernel.name];
      const std::int64_t count = sum.count + kernel.count;
      const double total =
          sum.mean_us * static_cast<double>(sum.count) + kernel.mean_us * static_cast<double>(kernel.count);
      sum = {kernel.name, kernel.kernel_class,
             collectives, sum.share + kernel.share,
             count,       count > 0 ? total / static_cast<double>(count) : 0};
    }
  }
  std::vector<BusyKernel> order;
  for (const auto& [name, kernel] : sums) order.push_back(kernel);
  std::ranges::stable_sort(order, std::greater(), &BusyKernel::share);
  TextTable table(
      {{collectives ? "collective" : "kernel"}, {"class"}, {"share", true}, {"count", true}, {"mean", true}});
  for (std::size_t i = 0; i < std::min(order.size(), kMostKernels); ++i) {
    const BusyKernel& kernel = order[i];
    std::string name = printable(kernel.name);
    if (name.size() > kLongestName) name = name.substr(0, kLongestName - 3) + "...";
    table.add({name, collectives ? "" : kernel.kernel_class, percent(kernel.share / static_cast<double>(ranks.size())),
               std::to_string(kernel.count), format_ms(kernel.mean_us / 1e3)});
  }
  return table.empty() ? "" : "\n" + table.str();
}

}  // namespace

Result<std::vector<LiveRank>> parse_live_ranks(std::string_view text) {
  return reading(text, [](const json& document) {
    std::vector<LiveRank> ranks;
    for (const json& object : document.at("ranks")) ranks.push_back(rank_of(object));
    return ranks;
  });
}

std::string describe(const std::vector<LiveRank>& ranks) {
  if (ranks.empty()) return "no rank records anything (yet)\n";
  TextTable table({{"rank", true},
                   {"node"},
                   {"step", true},
                   {"steps/s", true},
                   {"step time", true},
                   {"compute", true},
                   {"exposed comm", true},
                   {"receiving", true},
                   {"copies", true},
                   {"idle", true},
                   {"overlapped", true},
                   {"from"}});
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    const LiveRank& rank = ranks[i];
    std::vector<std::string> cells{std::to_string(rank.rank), printable(rank.node),
                                   std::to_string(rank.step.value_or(rank.steps))};
    if (rank.steps_measured > 0) {
      for (std::string& cell : std::vector<std::string>{
               format_fixed(rank.steps_per_second, 2), format_ms(rank.step_ms), percent(rank.computation),
               percent(rank.exposed_communication), rank.receiving ? percent(*rank.receiving) : "-",
               percent(rank.exposed_copy), percent(rank.idle), percent(rank.overlapped_communication)}) {
        cells.push_back(std::move(cell));
      }
    } else {
      cells.insert(cells.end(), 8, "-");
    }
    cells.push_back(found_by(rank));
    table.add(std::move(cells));
  }
  std::string text = table.str();
  if (ranks.size() > kMostRanks) text += "and " + std::to_string(ranks.size() - kMostRanks) + " more\n";
  return text + streams_text(ranks) + busiest_text(ranks, false) + busiest_text(ranks, true);
}

}  // namespace trimtab::cli
