#include "simulated_collectives.hpp"

#include <algorithm>

#include "schema/nccl.hpp"

namespace trimtab::test {
namespace {

constexpr std::uint64_t kPeriodNs = 1'000'000'000;
constexpr std::uint64_t kTransferNs = 2'000'000;

std::uint8_t number_of(const char* function) {
  const auto found = std::ranges::find_if(
      nccl::kFunctions, [&](const nccl::Name& one) { return one.ours == std::string_view(function); });
  return static_cast<std::uint8_t>(found - std::begin(nccl::kFunctions));
}

}  // namespace

std::vector<agent::CollectiveStamp> SimulatedCollectives::take(std::uint32_t rank) {
  const auto made = static_cast<std::uint32_t>(static_cast<std::uint64_t>(time_.now().count()) / kPeriodNs);
  std::vector<agent::CollectiveStamp> stamps;
  for (std::uint32_t& number = next_[rank]; number < made; ++number) {
    agent::CollectiveStamp stamp;
    stamp.communicator = 7;
    stamp.function = number_of(kSubject);
    stamp.sequence = number;
    stamp.ranks = stamp.nodes = ranks_;
    stamp.rank = rank;
    stamp.bytes = 1 << 20;
    // Ranks come one after the other and end together.
    stamp.end_ns = (number + 1) * kPeriodNs;
    stamp.begin_ns = stamp.end_ns - kTransferNs * (ranks_ - rank);
    stamps.push_back(stamp);
  }
  return stamps;
}

void SimulatedCollectives::told(const std::vector<agent::CollectiveStamp>& stamps) {
  for (const agent::CollectiveStamp& stamp : stamps) told_[stamp.sequence].insert(stamp.rank);
}

std::uint64_t SimulatedCollectives::whole() const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(told_, [this](const auto& one) { return one.second.size() == ranks_; }));
}

}  // namespace trimtab::test
