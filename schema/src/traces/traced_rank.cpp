#include "schema/traces/traced_rank.hpp"

#include <algorithm>
#include <map>

namespace trimtab {

namespace {

constexpr std::array<std::string_view, kTracedKinds> kNames = {
    "computation", "copy",      "all_reduce", "all_gather", "reduce_scatter",
    "all_to_all",  "broadcast", "reduce",     "send_recv",  "collective"};

}  // namespace

std::string_view to_string(TracedKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

TracedKind communication_named(std::string_view primitive) {
  const auto* const first = kNames.begin() + static_cast<std::ptrdiff_t>(TracedKind::kAllReduce);
  const auto* const found = std::find(first, kNames.end(), primitive);
  return found == kNames.end() ? TracedKind::kCollective : static_cast<TracedKind>(found - kNames.begin());
}

std::string_view to_string(Profiler profiler) {
  return profiler == Profiler::kPyTorch ? "PyTorch Profiler" : "Nsight Systems";
}

Result<RankNumbers> number_ranks(const std::vector<TracedRank>& ranks) {
  RankNumbers all;
  all.counted = !std::ranges::all_of(ranks, [](const TracedRank& one) { return one.rank.has_value(); });
  std::map<std::int32_t, std::string> files;
  for (const TracedRank& one : ranks) {
    const std::int32_t number = all.counted ? static_cast<std::int32_t>(all.numbers.size()) : *one.rank;
    const auto [first, fresh] = files.try_emplace(number, one.file);
    if (!fresh) {
      return bad_input(one.file + ": it is of rank " + std::to_string(number) + ", and so is " + first->second +
                       "; give one trace of each rank");
    }
    all.numbers.push_back(number);
  }
  return all;
}

}  // namespace trimtab
