#include <algorithm>

#include "strategies/aceso/split_moves.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kPartners = 16;  // stages asked for devices, those with most to spare first
constexpr std::size_t kFirstPartners = 4;
constexpr std::int32_t kSmallAmounts = 8;  // every amount up to here, then doubling

bool listed(const PlanSpace& space, std::int32_t count) {
  const std::vector<std::int32_t>& counts = space.device_counts;
  return counts.empty() || std::find(counts.begin(), counts.end(), count) != counts.end();
}

// The next count of devices that a stage may have, or 0.
std::int32_t next_count(const PlanSpace& space, std::int32_t count, bool larger) {
  std::int32_t best = 0;
  for (const std::int32_t other : space.device_counts) {
    const bool beyond = larger ? other > count : other < count;
    const bool nearer = best == 0 || (larger ? other < best : other > best);
    if (beyond && nearer) best = other;
  }
  return best;
}

void with_one_partner(const PlanSpace& space, const Candidate& from, std::int32_t partner, std::int32_t stage,
                      bool take, std::vector<DeviceChange>& changes) {
  const std::int32_t own = from.stages[stage].devices;
  const std::int32_t other = from.stages[partner].devices;
  const std::int32_t most = (take ? other : own) - 1;
  for (std::int32_t amount = 1; amount <= most; amount += amount < kSmallAmounts ? 1 : amount) {
    const std::int32_t signed_amount = take ? amount : -amount;
    if (!listed(space, own + signed_amount) || !listed(space, other - signed_amount)) continue;
    changes.push_back({{stage, own + signed_amount}, {partner, other - signed_amount}});
  }
}

// Partners from the `first` on, each one step, until as many devices have changed hands as the stage's own step needs.
void with_several_partners(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                           std::size_t first, std::int32_t stage, bool take, std::vector<DeviceChange>& changes) {
  const std::int32_t own = from.stages[stage].devices;
  const std::int32_t target = next_count(space, own, take);
  if (target == 0) return;
  std::int32_t rest = take ? target - own : own - target;
  DeviceChange change{{stage, target}};
  for (std::size_t i = first; i < partners.size() && rest > 0; ++i) {
    const std::int32_t has = from.stages[partners[i]].devices;
    const std::int32_t becomes = next_count(space, has, !take);
    const std::int32_t amount = take ? has - becomes : becomes - has;
    if (becomes == 0 || amount > rest) continue;
    change.emplace_back(partners[i], becomes);
    rest -= amount;
  }
  if (rest == 0 && change.size() > 2) changes.push_back(std::move(change));
}

}  // namespace

std::vector<DeviceChange> device_changes(const PlanSpace& space, const Candidate& from,
                                         const std::vector<std::int32_t>& partners, std::int32_t stage, bool take) {
  std::vector<DeviceChange> changes;
  for (std::size_t i = 0; i < std::min(kPartners, partners.size()); ++i) {
    with_one_partner(space, from, partners[i], stage, take, changes);
  }
  if (space.device_counts.empty()) return changes;
  for (std::size_t first = 0; first + 1 < partners.size() && first < kFirstPartners; ++first) {
    with_several_partners(space, from, partners, first, stage, take, changes);
  }
  return changes;
}

}  // namespace trimtab::tuner
