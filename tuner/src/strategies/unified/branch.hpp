#pragma once

// One microbatch size in the search of `unified`, and which cuts and orders of devices its solver looks at.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "plan/plan_space.hpp"
#include "schema/model.hpp"
#include "strategies/unified/partition_solver.hpp"

namespace trimtab::tuner::unified {

[[nodiscard]] inline std::vector<std::int32_t> devices_of(const Partition& partition) {
  std::vector<std::int32_t> devices;
  for (const PartitionStage& stage : partition.stages) devices.push_back(stage.devices);
  return devices;
}

// Sequences of devices near a given one: one stage or two in a row moved elsewhere, one stage halved into two, or two
// neighbours of the same count merged; without repeats.
[[nodiscard]] inline std::vector<std::vector<std::int32_t>> orders_near(const PartitionSpace& space,
                                                                        const std::vector<std::int32_t>& devices) {
  std::vector<std::vector<std::int32_t>> orders;
  const auto add = [&](std::vector<std::int32_t> order) {
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(std::move(order));
  };
  const auto stages = static_cast<std::int32_t>(devices.size());
  for (const std::int32_t count : {1, 2}) {
    for (std::int32_t from = 0; from + count <= stages; ++from) {
      for (std::int32_t to = 0; to + count <= stages; ++to) {
        std::vector<std::int32_t> moved = devices;
        moved.erase(moved.begin() + from, moved.begin() + from + count);
        moved.insert(moved.begin() + to, devices.begin() + from, devices.begin() + from + count);
        if (moved != devices) add(std::move(moved));
      }
    }
  }
  for (std::int32_t s = 0; stages < space.stages_max && s < stages; ++s) {
    if (devices[s] % 2 != 0) continue;
    std::vector<std::int32_t> halved = devices;
    halved[s] /= 2;
    halved.insert(halved.begin() + s, halved[s]);
    add(std::move(halved));
  }
  for (std::int32_t s = 0; stages > space.stages_min && s + 1 < stages; ++s) {
    if (devices[s] != devices[s + 1]) continue;
    std::vector<std::int32_t> merged = devices;
    merged[s] *= 2;
    merged.erase(merged.begin() + s + 1);
    add(std::move(merged));
  }
  return orders;
}

// Its stages, its solver, and the best cuts that it has found for each sequence of devices. One per search; not
// thread-safe.
struct Branch {
  std::int32_t microbatch = 1;
  PartitionSpace space;
  std::unique_ptr<StagePricer> pricer;
  std::unique_ptr<PartitionSolver> solver;
  std::vector<Partition> pool;                 // best first
  std::set<std::vector<std::int32_t>> varied;  // orders of devices that have been tried
  double floor = 0;                            // no plan with this microbatch takes less

  [[nodiscard]] double objective(const Partition& partition) const { return partition.objective(space.rounds); }
  [[nodiscard]] double best() const {
    return pool.empty() ? std::numeric_limits<double>::infinity() : objective(pool[0]);
  }
  void keep(const Partition& partition) {
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
  // The partition with its stages.
  [[nodiscard]] Candidate candidate(const Partition& partition) {
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

  static constexpr std::size_t kPool = 24;
};

// What the solver may do, from the search's space.
[[nodiscard]] inline PartitionSpace partition_space(const PlanSpace& space, std::int32_t rounds) {
  PartitionSpace of;
  of.operators = space.operators;
  of.devices = space.devices;
  of.stages_min = std::max(1, space.stages_min);
  of.stages_max = std::max(of.stages_min, space.stages_max);
  of.rounds = rounds;
  of.device_counts = space.device_counts;
  if (of.device_counts.empty()) {
    for (std::int32_t count = 1; count <= space.devices; ++count) of.device_counts.push_back(count);
  }
  of.node_begin.assign(static_cast<std::size_t>(space.devices) + 1, false);
  if (space.node_boundaries) {
    for (const std::int32_t end : space.node_ends) of.node_begin[end] = true;
  }
  return of;
}

// Whole layers first, then cuts around a plan's.
class CutSets {
 public:
  CutSets(const Model& model, const PlanSpace& space) : allowed_(space.cuts) {
    std::vector<std::int32_t> layers;
    for (const std::int32_t cut : allowed_) {
      if (model.operators[cut].layer != model.operators[cut - 1].layer) layers.push_back(cut);
    }
    layers_ = layers;
    if (layers.size() < 8 || static_cast<std::int32_t>(layers.size()) < 2 * space.stages_max) layers = allowed_;
    const std::size_t first = std::max(kFirstCuts, 2 * static_cast<std::size_t>(std::max(1, space.stages_max)));
    if (first < kCoarseCuts) first_ = thinned(layers, first);
    coarse_ = thinned(layers, kCoarseCuts);
    finer_ = thinned(layers, kFinerCuts);
    if (!coarse_.empty()) stride_ = std::max(1, space.operators / static_cast<std::int32_t>(coarse_.size()));
  }

  // Allowed begins of layers.
  [[nodiscard]] const std::vector<std::int32_t>& layers() const { return layers_; }
  // Begins of layers, or every so-many-th of them: very few, few, and then more.
  [[nodiscard]] const std::vector<std::int32_t>& first() const { return first_; }
  [[nodiscard]] const std::vector<std::int32_t>& coarse() const { return coarse_; }
  [[nodiscard]] const std::vector<std::int32_t>& finer() const { return finer_; }
  // Operators between two of the coarse ones.
  [[nodiscard]] std::int32_t coarse_stride() const { return stride_; }
  // Allowed cuts at most `reach` operators away from those of the partition, every `stride` operators.
  [[nodiscard]] std::vector<std::int32_t> around(const Partition& partition, std::int32_t reach,
                                                 std::int32_t stride) const {
    std::vector<std::int32_t> cuts;
    for (std::size_t s = 0; s + 1 < partition.stages.size(); ++s) {
      const std::int32_t middle = partition.stages[s].end;
      for (std::int32_t cut = middle - reach / stride * stride; cut <= middle + reach; cut += stride) {
        if (std::binary_search(allowed_.begin(), allowed_.end(), cut)) cuts.push_back(cut);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
  }

 private:
  static constexpr std::size_t kFirstCuts = 20;
  static constexpr std::size_t kCoarseCuts = 48;
  static constexpr std::size_t kFinerCuts = 128;
  static std::vector<std::int32_t> thinned(const std::vector<std::int32_t>& cuts, std::size_t most) {
    std::vector<std::int32_t> kept;
    const std::size_t step = std::max<std::size_t>(1, (cuts.size() + most - 1) / most);
    for (std::size_t i = 0; i < cuts.size(); i += step) kept.push_back(cuts[i]);
    return kept;
  }

  std::vector<std::int32_t> allowed_, layers_, first_, coarse_, finer_;
  std::int32_t stride_ = 1;
};

}  // namespace trimtab::tuner::unified
