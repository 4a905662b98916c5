#include "strategies/unified/cut_sets.hpp"

#include <algorithm>

namespace trimtab::tuner::unified {
namespace {

constexpr std::size_t kFirstCuts = 20;
constexpr std::size_t kCoarseCuts = 48;
constexpr std::size_t kFinerCuts = 128;

std::vector<std::int32_t> thinned(const std::vector<std::int32_t>& cuts, std::size_t most) {
  std::vector<std::int32_t> kept;
  const std::size_t step = std::max<std::size_t>(1, (cuts.size() + most - 1) / most);
  for (std::size_t i = 0; i < cuts.size(); i += step) kept.push_back(cuts[i]);
  return kept;
}

}  // namespace

PartitionSpace partition_space(const PlanSpace& space, std::int32_t rounds) {
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

CutSets::CutSets(const Model& model, const PlanSpace& space) : allowed_(space.cuts) {
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

std::vector<std::int32_t> CutSets::around(const Partition& partition, std::int32_t reach, std::int32_t stride) const {
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

}  // namespace trimtab::tuner::unified
