#include "jobs/live_text.hpp"

#include <algorithm>
#include <map>

#include "base/numbers.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kMostRanks = 32;
constexpr std::size_t kMostKernels = 8;
constexpr std::size_t kMostStreams = 24;
constexpr std::size_t kLongestName = 72;

bool receives(const api::BusyKernel& kernel) {
  return kernel.name == "transfer/recv" || kernel.name.starts_with("ncclDevKernel_SendRecv");
}

// Of the time since the last look: receives from the stages beside this one, which mostly wait for them to compute (the
// pipeline's bubble). On a device NCCL's kernel for sends and receives. It is a part of the communication, exposed or
// not, and no part of the idle time. Nothing: among the busiest there is none.
std::optional<double> receiving(const api::LiveRank& rank) {
  std::optional<double> share;
  for (const api::BusyKernel& kernel : rank.busiest) {
    if (receives(kernel)) share = share.value_or(0) + kernel.share;
  }
  return share;
}

std::string percent(double share) {
  return format_fixed(100 * share, 1) + " %";
}

std::string found_by(const api::LiveRank& rank) {
  std::string text = rank.source;
  if (rank.step_found_by == "period") text += ", step found (" + format_fixed(rank.confidence, 2) + ")";
  return rank.age_s > 3 ? text + ", " + format_fixed(rank.age_s, 0) + " s ago" : text;
}

double busy_share(const api::LiveStream& stream) {
  return stream.computation + stream.communication + stream.copy;
}

std::string streams_text(const std::vector<api::LiveRank>& ranks) {
  TextTable table({">rank", ">stream", ">compute", ">communication", ">copies"});
  std::size_t shown = 0;
  std::size_t all = 0;
  for (const api::LiveRank& rank : ranks) {
    std::vector<api::LiveStream> streams = rank.streams;
    std::ranges::stable_sort(streams, std::greater(), busy_share);
    for (const api::LiveStream& stream : streams) {
      if (all++ >= kMostStreams) continue;
      ++shown;
      table.add({std::to_string(rank.rank), std::to_string(stream.stream), percent(stream.computation),
                 percent(stream.communication), percent(stream.copy)});
    }
  }
  if (table.empty()) return "";
  return "\n" + table.str() + (all > shown ? "and " + std::to_string(all - shown) + " more\n" : "");
}

std::string share_text(const std::optional<double>& share) {
  return share ? percent(*share) : "-";
}

// Where the steps of ranks on devices went. "-": their records do not tell.
std::string parts_text(const std::vector<api::LiveRank>& ranks) {
  TextTable table({">stage", ">rank", ">compute", ">collectives", ">gradients", ">transfers", ">bubble", ">copies",
                   ">launch-bound", ">data", ">idle"});
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    const api::LiveRank& rank = ranks[i];
    if (!rank.shares || !rank.parts) continue;
    const api::LiveParts& parts = *rank.parts;
    const double rest = rank.shares->idle - parts.launch_bound.value_or(0) - parts.data.value_or(0);
    table.add({parts.stage ? std::to_string(*parts.stage) : "-", std::to_string(rank.rank),
               percent(rank.shares->computation), share_text(parts.collectives), share_text(parts.gradients),
               share_text(parts.transfers), share_text(parts.bubble), percent(rank.shares->exposed_copy),
               share_text(parts.launch_bound), share_text(parts.data), percent(std::max(rest, 0.0))});
  }
  return table.empty() ? "" : "\n" + table.str();
}

// Of all ranks together: means of the shares.
std::string busiest_text(const std::vector<api::LiveRank>& ranks, bool collectives) {
  std::map<std::string, api::BusyKernel> sums;
  for (const api::LiveRank& rank : ranks) {
    for (const api::BusyKernel& kernel : rank.busiest) {
      if (kernel.collective != collectives) continue;
      api::BusyKernel& sum = sums[kernel.name];
      const std::uint64_t count = sum.count + kernel.count;
      const double total =
          sum.mean_us * static_cast<double>(sum.count) + kernel.mean_us * static_cast<double>(kernel.count);
      sum = {kernel.name, kernel.kernel_class,
             collectives, sum.share + kernel.share,
             count,       count > 0 ? total / static_cast<double>(count) : 0};
    }
  }
  std::vector<api::BusyKernel> order;
  for (const auto& [name, kernel] : sums) order.push_back(kernel);
  std::ranges::stable_sort(order, std::greater(), &api::BusyKernel::share);
  TextTable table({collectives ? "collective" : "kernel", "class", ">share", ">count", ">mean"});
  for (std::size_t i = 0; i < std::min(order.size(), kMostKernels); ++i) {
    const api::BusyKernel& kernel = order[i];
    std::string name = printable(kernel.name);
    if (name.size() > kLongestName) name = name.substr(0, kLongestName - 3) + "...";
    table.add({name, collectives ? "" : kernel.kernel_class, percent(kernel.share / static_cast<double>(ranks.size())),
               std::to_string(kernel.count), format_ms(kernel.mean_us / 1e3)});
  }
  return table.empty() ? "" : "\n" + table.str();
}

}  // namespace

std::string describe(const std::vector<api::LiveRank>& ranks) {
  if (ranks.empty()) return "no rank records anything (yet)\n";
  TextTable table({">rank", "node", ">step", ">steps/s", ">step time", ">compute", ">exposed comm", ">receiving",
                   ">copies", ">idle", ">overlapped", "from"});
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRanks); ++i) {
    const api::LiveRank& rank = ranks[i];
    std::vector<std::string> cells{std::to_string(rank.rank), printable(rank.node),
                                   rank.step ? std::to_string(*rank.step) : std::to_string(rank.steps)};
    if (rank.steps_measured > 0) {
      const api::LiveShares shares = rank.shares.value_or(api::LiveShares{});
      const std::optional<double> received = receiving(rank);
      cells.insert(
          cells.end(),
          {format_fixed(rank.steps_per_second.value_or(0), 2), format_ms(rank.step_ms.value_or(0)),
           percent(shares.computation), percent(shares.exposed_communication), received ? percent(*received) : "-",
           percent(shares.exposed_copy), percent(shares.idle), percent(shares.overlapped_communication)});
    } else {
      cells.insert(cells.end(), 8, "-");
    }
    cells.push_back(found_by(rank));
    table.add(std::move(cells));
  }
  std::string text = table.str();
  if (ranks.size() > kMostRanks) text += "and " + std::to_string(ranks.size() - kMostRanks) + " more\n";
  return text + parts_text(ranks) + streams_text(ranks) + busiest_text(ranks, false) + busiest_text(ranks, true);
}

}  // namespace trimtab::cli
