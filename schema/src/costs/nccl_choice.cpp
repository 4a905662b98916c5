#include "schema/nccl_choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/check.hpp"
#include "schema/nccl_table.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab {

namespace {

struct Group {
  std::uint8_t function = 0;
  std::uint32_t ranks = 0;
  bool several_nodes = false;
  auto operator<=>(const Group&) const = default;
};

// One way to run a collective.
struct Choice {
  std::uint8_t algorithm = 0;
  std::uint8_t protocol = 0;
  auto operator<=>(const Choice&) const = default;
};

using Channels = std::map<std::int32_t, Statistics>;
using Choices = std::map<Choice, Channels>;
using Sizes = std::map<std::uint64_t, Choices>;

constexpr std::int64_t kLargest = std::int64_t{1} << 50;

// NCCL counts the larger of what a rank sends and receives; a cost's bytes are what it sends.
std::uint64_t counted_bytes(std::uint8_t function, std::int64_t input, std::uint32_t ranks) {
  const auto bytes = static_cast<std::uint64_t>(input);
  return function == nccl::kAllGather ? bytes * ranks : bytes;
}

std::map<Group, Sizes> measured(const std::vector<Cost>& costs) {
  std::map<Group, Sizes> groups;
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    if (key.kind != CostKind::kCollective || cost.statistics.empty() || cost.source.waiting) continue;
    if (contributor_of(cost.source)) continue;  // of another team's network
    const std::uint8_t function = nccl::index_of_ours(nccl::kFunctions, key.subject.c_str());
    const Choice way{nccl::index_of_ours(nccl::kAlgorithms, key.algorithm.c_str()),
                     nccl::index_of_ours(nccl::kProtocols, key.protocol.c_str())};
    const bool known = nccl::tunable(function) && way.algorithm != nccl::kUnknown && way.protocol != nccl::kUnknown;
    if (!known || key.group_size < 2 || key.bytes <= 0 || key.bytes > kLargest / key.group_size) continue;
    const auto ranks = static_cast<std::uint32_t>(key.group_size);
    const Group group{function, ranks, key.placement != "intra_node"};
    groups[group][counted_bytes(function, key.bytes, ranks)][way][key.channels].merge(cost.statistics);
  }
  return groups;
}

double mean_of(const Channels& channels) {
  Statistics all;
  for (const auto& [number, statistics] : channels) all.merge(statistics);
  return all.mean();
}

std::uint64_t values_of(const Channels& channels) {
  std::uint64_t values = 0;
  for (const auto& [number, statistics] : channels) values += statistics.count();
  return values;
}

bool is_collnet(std::uint8_t algorithm) {
  return algorithm == nccl::kCollnetDirect || algorithm == nccl::kCollnetChain;
}

// 0 where there is nothing to choose.
std::uint8_t best_channels(const Choice& way, const Channels& channels, std::uint64_t min_values) {
  std::uint8_t best = 0;
  double best_mean = std::numeric_limits<double>::infinity();
  int measured_often = 0;
  for (const auto& [number, statistics] : channels) {
    const bool usable = number >= 1 && number <= static_cast<std::int32_t>(nccl::kMaxChannels);
    if (!usable || statistics.count() < min_values) continue;
    ++measured_often;
    if (statistics.mean() >= best_mean) continue;
    best_mean = statistics.mean();
    best = static_cast<std::uint8_t>(number);
  }
  return measured_often >= 2 && !is_collnet(way.algorithm) ? best : 0;
}

// A way with a number of channels that was measured too seldom is judged with all its channels together.
double time_of(const Choice& way, const Channels& channels, std::uint64_t min_values) {
  const std::uint8_t best = best_channels(way, channels, min_values);
  return best == 0 ? mean_of(channels) : channels.at(best).mean();
}

// Fills in what to do; false where there is nothing to choose.
bool choose(const Choices& ways, std::uint64_t min_values, NcclChoice& choice) {
  int measured_often = 0;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [way, channels] : ways) {
    if (values_of(channels) < min_values) continue;
    const std::uint8_t number = best_channels(way, channels, min_values);
    measured_often += number == 0 ? 1 : 2;
    const double time = time_of(way, channels, min_values);
    if (time >= best) continue;
    best = time;
    choice.algorithm = static_cast<nccl::Algorithm>(way.algorithm);
    choice.protocol = static_cast<nccl::Protocol>(way.protocol);
    choice.channels = number;
  }
  return measured_often >= 2;
}

std::uint64_t between(std::uint64_t smaller, std::uint64_t larger) {
  const double mean = std::sqrt(static_cast<double>(smaller)) * std::sqrt(static_cast<double>(larger));
  return std::clamp(static_cast<std::uint64_t>(mean), smaller, larger - 1);
}

bool continues(const NcclChoice& before, const NcclChoice& next) {
  const auto what = [](const NcclChoice& one) {
    return std::tuple(one.function, one.ranks, one.one_node, one.algorithm, one.protocol, one.channels);
  };
  return what(before) == what(next) && before.max_bytes + 1 == next.min_bytes;
}

void add_group(const Group& group, const Sizes& sizes, std::uint64_t min_values, std::vector<NcclChoice>& choices) {
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    const auto next = std::next(size);
    NcclChoice choice;
    choice.function = static_cast<nccl::Function>(group.function);
    choice.ranks = group.ranks;
    choice.one_node = !group.several_nodes;
    choice.min_bytes = size == sizes.begin() ? size->first / 2 : between(std::prev(size)->first, size->first) + 1;
    choice.max_bytes = next == sizes.end() ? size->first * 2 : between(size->first, next->first);
    if (!choose(size->second, min_values, choice)) continue;
    if (!choices.empty() && continues(choices.back(), choice)) {
      choices.back().max_bytes = choice.max_bytes;
    } else {
      choices.push_back(choice);
    }
  }
}

std::string without_underscores(std::string text) {
  std::erase(text, '_');
  return text;
}

}  // namespace

std::vector<NcclChoice> nccl_choices(const std::vector<Cost>& costs, NcclChoiceOptions options) {
  std::vector<NcclChoice> choices;
  for (const auto& [group, sizes] : measured(costs)) add_group(group, sizes, options.min_values, choices);
  if (choices.size() > nccl::kMaxTableEntries) choices.resize(nccl::kMaxTableEntries);
  return choices;
}

std::string encode_nccl_table(const std::vector<NcclChoice>& choices, std::uint64_t epoch) {
  nccl::TableHeader header{nccl::kTableMagic,
                           nccl::kTableVersion,
                           sizeof(nccl::TableHeader),
                           sizeof(nccl::TableEntry),
                           static_cast<std::uint32_t>(choices.size()),
                           epoch,
                           0};
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const NcclChoice& choice : choices) {
    const nccl::TableEntry entry{choice.min_bytes,          choice.max_bytes, choice.ranks,
                                 choice.one_node ? 0U : 1U, choice.function,  choice.algorithm,
                                 choice.protocol,           choice.channels,  0};
    file.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
  }
  header.id = nccl::table_id(file.data(), file.size());
  std::memcpy(file.data(), &header, sizeof(header));
  TRIMTAB_ASSERT(nccl_table_id(file).ok(), "a table of choices must be readable by the tuner plugin");
  return file;
}

Result<std::string> nccl_table_id(const std::string& file) {
  std::vector<std::uint64_t> aligned(file.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(aligned.data(), file.data(), file.size());
  nccl::TableView view;
  const nccl::TableFault fault = nccl::TableView::open(aligned.data(), file.size(), view);
  if (fault != nccl::TableFault::kNone) {
    return bad_input(std::string("the table of NCCL choices cannot be used: ") + nccl::fault_text(fault));
  }
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(view.id() >> shift) & 0xf];
  return text;
}

std::string to_nccl_tuner_csv(const std::vector<NcclChoice>& choices) {
  std::string text =
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n";
  for (const bool one_node : {true, false}) {
    for (const NcclChoice& choice : choices) {
      if (choice.one_node != one_node) continue;
      text += without_underscores(nccl::kFunctions[choice.function].ours) + "," + std::to_string(choice.min_bytes) +
              "," + std::to_string(choice.max_bytes) + "," + nccl::kAlgorithms[choice.algorithm].ours + "," +
              nccl::kProtocols[choice.protocol].ours + "," +
              (choice.channels == 0 ? std::string("-1") : std::to_string(choice.channels)) +
              (one_node ? ",1," : ",-1,") + std::to_string(choice.ranks) + ",-1,-1\n";
    }
  }
  return text;
}

}  // namespace trimtab
