#include "strategies/galvatron/partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kRounding = 1e-9;  // of sums in another order

std::int32_t begin_of(const Partition& partition, std::int32_t stage) {
  return stage == 0 ? 0 : partition[static_cast<std::size_t>(stage - 1)];
}

// The partition whose largest stage is smallest; `sums` are prefix sums of each stage's layers.
Partition balanced(std::int32_t layers, std::int32_t stages, const std::vector<std::vector<double>>& sums,
                   const std::vector<double>& reserved) {
  TRIMTAB_ASSERT(stages >= 1 && stages <= layers, "every stage has a layer");
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto width = static_cast<std::size_t>(layers) + 1;
  // largest[s * width + e]: of the first s + 1 stages, which end at e.
  std::vector<double> largest(static_cast<std::size_t>(stages) * width, kInfinite);
  std::vector<std::int32_t> cut(largest.size(), 0);
  for (std::int32_t s = 0; s < stages; ++s) {
    const std::vector<double>& sum = sums[static_cast<std::size_t>(s)];
    for (std::int32_t end = s + 1; end <= layers - (stages - 1 - s); ++end) {
      const std::size_t at = static_cast<std::size_t>(s) * width + static_cast<std::size_t>(end);
      for (std::int32_t begin = s; begin < end; ++begin) {
        if (s == 0 && begin > 0) break;
        const double own = sum[static_cast<std::size_t>(end)] - sum[static_cast<std::size_t>(begin)] +
                           reserved[static_cast<std::size_t>(s)];
        const double before = s == 0 ? 0 : largest[at - width - static_cast<std::size_t>(end - begin)];
        if (std::max(own, before) >= largest[at]) continue;
        largest[at] = std::max(own, before);
        cut[at] = begin;
      }
    }
  }
  Partition partition(static_cast<std::size_t>(stages));
  std::int32_t end = layers;
  for (std::int32_t s = stages; s-- > 0;) {
    partition[static_cast<std::size_t>(s)] = end;
    end = cut[static_cast<std::size_t>(s) * width + static_cast<std::size_t>(end)];
  }
  return partition;
}

std::vector<double> prefix_sums(const double* values, std::int32_t count) {
  std::vector<double> sums{0};
  for (std::int32_t i = 0; i < count; ++i) sums.push_back(sums.back() + values[i]);
  return sums;
}

}  // namespace

double PartitionCosts::stage_ms(const Partition& partition, std::int32_t stage) const {
  return std::accumulate(ms.begin() + begin_of(partition, stage),
                         ms.begin() + partition[static_cast<std::size_t>(stage)], 0.0);
}

double PartitionCosts::stage_mib(const Partition& partition, std::int32_t stage) const {
  const auto row = mib.begin() + static_cast<std::ptrdiff_t>(stage) * layers;
  return std::accumulate(row + begin_of(partition, stage), row + partition[static_cast<std::size_t>(stage)],
                         reserved[static_cast<std::size_t>(stage)]);
}

double PartitionCosts::most_ms(const Partition& partition) const {
  double most = 0;
  for (std::int32_t s = 0; s < stages; ++s) most = std::max(most, stage_ms(partition, s));
  return most;
}

double PartitionCosts::most_mib(const Partition& partition) const {
  double most = 0;
  for (std::int32_t s = 0; s < stages; ++s) most = std::max(most, stage_mib(partition, s));
  return most;
}

BalanceDegrees balance_degrees(const PartitionCosts& costs, const Partition& partition) {
  double ms = 0;
  double mib = 0;
  for (std::int32_t s = 0; s < costs.stages; ++s) {
    ms += costs.stage_ms(partition, s);
    mib += costs.stage_mib(partition, s);
  }
  return {ms > 0 ? 1 - costs.most_ms(partition) / ms : 0, mib > 0 ? 1 - costs.most_mib(partition) / mib : 0};
}

Partition memory_balanced(const PartitionCosts& costs) {
  std::vector<std::vector<double>> sums;
  for (std::int32_t s = 0; s < costs.stages; ++s) {
    sums.push_back(prefix_sums(costs.mib.data() + static_cast<std::ptrdiff_t>(s) * costs.layers, costs.layers));
  }
  return balanced(costs.layers, costs.stages, sums, costs.reserved);
}

Partition time_balanced(const PartitionCosts& costs) {
  const std::vector<std::vector<double>> sums(static_cast<std::size_t>(costs.stages),
                                              prefix_sums(costs.ms.data(), costs.layers));
  return balanced(costs.layers, costs.stages, sums, std::vector<double>(static_cast<std::size_t>(costs.stages), 0));
}

Partition even_partition(std::int32_t layers, std::int32_t stages) {
  Partition partition;
  for (std::int32_t s = 1; s < stages; ++s) partition.push_back(layers / stages * s);
  partition.push_back(layers);
  return partition;
}

std::vector<Partition> adjustments(const PartitionCosts& costs, const Partition& partition, double limit_mib,
                                   double most_mib) {
  std::vector<Partition> valid;
  std::int32_t slowest = 0;
  for (std::int32_t s = 1; s < costs.stages; ++s) {
    if (costs.stage_ms(partition, s) > costs.stage_ms(partition, slowest)) slowest = s;
  }
  const auto at = static_cast<std::size_t>(slowest);
  if (partition[at] - begin_of(partition, slowest) < 2) return valid;
  const double most_ms = costs.stage_ms(partition, slowest) * (1 + kRounding);
  const double most = std::min(limit_mib, most_mib * (1 + kRounding));
  const auto offer = [&](Partition moved) {
    if (costs.most_ms(moved) <= most_ms && costs.most_mib(moved) <= most) valid.push_back(std::move(moved));
  };
  if (slowest > 0) {
    Partition moved = partition;
    ++moved[at - 1];
    offer(std::move(moved));
  }
  if (slowest + 1 < costs.stages) {
    Partition moved = partition;
    --moved[at];
    offer(std::move(moved));
  }
  return valid;
}

std::vector<Partition> neighbours(const Partition& partition) {
  std::vector<Partition> all;
  const std::size_t cuts = partition.size() - 1;
  for (std::size_t first = 0; first < cuts; ++first) {
    for (std::size_t last = first; last < cuts; ++last) {
      for (const std::int32_t by : {-1, 1}) {
        Partition moved = partition;
        for (std::size_t s = first; s <= last; ++s) moved[s] += by;
        const std::int32_t before = first == 0 ? 0 : moved[first - 1];
        if (moved[first] > before && moved[last] < moved[last + 1]) all.push_back(std::move(moved));
      }
    }
  }
  return all;
}

}  // namespace trimtab::tuner::galvatron
