#include "strategies/unified/branch.hpp"

#include <algorithm>

namespace trimtab::tuner::unified {
namespace {

constexpr std::size_t kPool = 24;

}  // namespace

std::vector<std::int32_t> devices_of(const Partition& partition) {
  std::vector<std::int32_t> devices;
  for (const PartitionStage& stage : partition.stages) devices.push_back(stage.devices);
  return devices;
}

void Branch::keep(const Partition& partition) {
  std::erase_if(pool, [&](const Partition& other) {
    return devices_of(other) == devices_of(partition) && objective(other) >= objective(partition);
  });
  const auto same = [&](const Partition& other) { return devices_of(other) == devices_of(partition); };
  if (std::any_of(pool.begin(), pool.end(), same)) return;
  const auto place =
      std::upper_bound(pool.begin(), pool.end(), partition,
                       [this](const Partition& a, const Partition& b) { return objective(a) < objective(b); });
  pool.insert(place, partition);
  if (pool.size() > kPool) pool.pop_back();
}

Candidate Branch::candidate(const Partition& partition) {
  Candidate candidate;
  candidate.microbatch = microbatch;
  std::int32_t begin = 0;
  std::int32_t device = 0;
  auto left = static_cast<std::int32_t>(partition.stages.size());
  for (const PartitionStage& stage : partition.stages) {
    candidate.stages.push_back(pricer->stage(begin, stage.end, {device, stage.devices, left--}));
    begin = stage.end;
    device += stage.devices;
  }
  return candidate;
}

}  // namespace trimtab::tuner::unified
