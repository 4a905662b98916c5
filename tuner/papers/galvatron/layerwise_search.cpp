#include "papers/galvatron/layerwise_search.hpp"

#include <algorithm>
#include <deque>
#include <set>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kGain = 1e-12;

// No plan of the pipeline takes less: layers at their quickest, spread evenly.
double least_ms(Variant variant, const LayerwiseTables::Quickest& quickest, std::int32_t stages,
                std::int32_t microbatches) {
  const double pace = std::max(quickest.longest, quickest.plain / stages);
  if (variant == Variant::kV1) return quickest.sync;
  if (variant == Variant::kPaper) return (microbatches - 1) * pace + quickest.sync;
  // What synchronization hides behind filling is at most all of it, but not on the first stage alone.
  const double tail = stages == 1 ? quickest.sync - quickest.plain : 0;
  return pace * (microbatches - 1 + stages) + tail;
}

}  // namespace

LayerwiseSearch::LayerwiseSearch(const Formulas& formulas, LayerwiseSpace space, Listener tried,
                                 std::function<bool()> stop, std::shared_ptr<LayerwiseTables> tables)
    : formulas_(formulas),
      space_(std::move(space)),
      tried_(std::move(tried)),
      stop_(std::move(stop)),
      tables_(tables ? std::move(tables) : std::make_shared<LayerwiseTables>(formulas_, space_)) {
  may_cut_.assign(formulas.profile().type_of.size() + 1, false);
  for (const std::int32_t cut : space_.cuts) may_cut_[static_cast<std::size_t>(cut)] = true;
}

bool LayerwiseSearch::allowed(const Partition& partition) const {
  for (std::size_t s = 0; s + 1 < partition.size(); ++s) {
    if (!may_cut_[static_cast<std::size_t>(partition[s])]) return false;
  }
  return true;
}

// The most promising first: what it finds spares most of the others.
std::vector<LayerwiseSearch::Pipeline> LayerwiseSearch::pipelines() {
  std::vector<Pipeline> all;
  const auto layers = static_cast<std::int32_t>(formulas_.profile().type_of.size());
  const auto add = [&](std::int32_t stages, std::int32_t microbatches) {
    Pipeline pipeline;
    pipeline.stages = stages;
    pipeline.microbatches = microbatches;
    pipeline.least_ms =
        least_ms(formulas_.variant(), tables_->quickest(stages, space_.batch, microbatches), stages, microbatches);
    if (pipeline.least_ms < kInfinite) all.push_back(std::move(pipeline));
  };
  for (std::int32_t stages = 1; stages <= std::min(space_.stages_max, layers); stages *= 2) {
    if (stages < space_.stages_min || formulas_.profile().devices % stages != 0) continue;
    if (formulas_.variant() == Variant::kV1) {
      add(stages, 1);
      continue;
    }
    for (const std::int32_t microbatch : space_.microbatches) add(stages, space_.batch / microbatch);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Pipeline& a, const Pipeline& b) { return a.least_ms < b.least_ms; });
  return all;
}

std::optional<LayeredPlan> LayerwiseSearch::run(double below_ms) {
  best_ms_ = below_ms;
  lower_bound_ms_ = kInfinite;
  std::vector<Pipeline> all = pipelines();
  for (Pipeline& pipeline : all) {
    double bound = pipeline.least_ms;
    if (!stop_() && bound < best_ms_) {
      search(pipeline);
      bound = std::max(bound, pipeline.bound_ms);
    }
    lower_bound_ms_ = std::min(lower_bound_ms_, bound);
  }
  lower_bound_ms_ = std::min(lower_bound_ms_, best_ms_);
  if (tried_) try_runners_up(all);
  return best_;
}

// Whoever listens wants plans besides the best: even partitions of pipelines that were passed over.
void LayerwiseSearch::try_runners_up(std::vector<Pipeline>& pipelines) {
  constexpr int kRunnersUp = 8;
  int left = kRunnersUp;
  for (Pipeline& pipeline : pipelines) {
    if (!pipeline.tried.empty()) continue;
    if (left-- == 0) return;
    pipeline.table = &tables_->table(pipeline.stages, space_.batch, pipeline.microbatches);
    try_partition(pipeline, even_partition(tables_->ranges().layers(), pipeline.stages), "even");
  }
}

void LayerwiseSearch::search(Pipeline& pipeline) {
  pipeline.table = &tables_->table(pipeline.stages, space_.batch, pipeline.microbatches);
  pipeline.table->stop_when(stop_);
  pipeline.bound_ms = quick_bound(pipeline);
  if (pipeline.bound_ms >= best_ms_) return;
  adjust(pipeline);
  if (stop_()) return;
  const double bound = bound_of(pipeline);
  if (!pipeline.table->cut_short()) pipeline.bound_ms = std::max(pipeline.bound_ms, bound);
  if (pipeline.bound_ms < best_ms_ * (1 - kGain)) climb(pipeline);
}

double LayerwiseSearch::try_partition(Pipeline& pipeline, const Partition& partition, const char* step,
                                      const Choices& choices) {
  const auto known = pipeline.tried.find(partition);
  if (known != pipeline.tried.end() && choices.empty()) return known->second;
  double& ms = pipeline.tried.try_emplace(partition, kInfinite).first->second;
  if (!allowed(partition) || stop_()) return ms;
  ++partitions_;
  Choices with = choices;
  const double found = polish(pipeline, partition, with);
  if (found < ms) ms = report(pipeline, partition, with, found, step);
  return ms;
}

// The slowest stage counts with every microbatch, the others once: what they do beside it they may do slower, to
// synchronize less.
double LayerwiseSearch::polish(const Pipeline& pipeline, const Partition& partition, Choices& choices) {
  const double shares[] = {pipeline.every_share(formulas_.variant()), pipeline.once_share(formulas_.variant())};
  std::vector<Choices> points(static_cast<std::size_t>(pipeline.stages));
  std::vector<StageSum> sums;
  const bool given = !choices.empty();
  std::int32_t begin = 0;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::size_t slot = pipeline.table->slot(s, begin, partition[at]);
    begin = partition[at];
    for (const double share : shares) {
      const StagePoint* const point = pipeline.table->least(slot, share);
      if (point == nullptr) return kInfinite;
      points[at].push_back(point);
    }
    if (!given) choices.push_back(points[at].front());
    sums.push_back(choices[at]->sum);
  }
  double ms = formulas_.iteration_ms(sums, pipeline.microbatches);
  for (std::size_t s = 0; s < points.size(); ++s) {
    for (const StagePoint* const point : points[s]) {
      const StageSum before = sums[s];
      sums[s] = point->sum;
      const double changed = formulas_.iteration_ms(sums, pipeline.microbatches);
      if (changed >= ms * (1 - kGain)) {
        sums[s] = before;
        continue;
      }
      ms = changed;
      choices[s] = point;
    }
  }
  return ms;
}

double LayerwiseSearch::report(Pipeline& pipeline, const Partition& partition, const Choices& choices, double ms,
                               const char* step) {
  LayeredPlan plan;
  plan.batch = space_.batch;
  plan.microbatches = pipeline.microbatches;
  plan.plain_replicas = pipeline.table->space().plain_replicas;
  PartitionCosts costs{pipeline.stages, pipeline.stages, {}, {}, {}};
  Partition single;
  std::int32_t begin = 0;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const StagePoint& choice = *choices[static_cast<std::size_t>(s)];
    StageLayers& layers = plan.stages.emplace_back();
    layers.operators = {begin, partition[static_cast<std::size_t>(s)]};
    for (const std::int32_t strategy : choice.strategies) {
      layers.strategies.push_back(pipeline.table->space().strategies[static_cast<std::size_t>(strategy)]);
    }
    begin = layers.operators.end;
    costs.ms.push_back(choice.sum.sync_ms);
    costs.reserved.push_back(pipeline.table->reserved_mib(s) + choice.memory_mib);
    single.push_back(s + 1);
  }
  costs.mib.assign(static_cast<std::size_t>(pipeline.stages) * static_cast<std::size_t>(pipeline.stages), 0);
  Tried tried;
  tried.plan = &plan;
  tried.ms = ms;
  tried.before_ms = best_ms_;
  tried.step = step;
  tried.balance = balance_degrees(costs, single);
  tried.better = ms < best_ms_ * (1 - kGain);
  if (tried_ && !tried_(tried)) return kInfinite;
  if (tried.better) {
    best_ = plan;
    best_ms_ = ms;
  }
  if (ms < pipeline.best_ms) {
    pipeline.best_ms = ms;
    pipeline.best_partition = partition;
    pipeline.best_choices = choices;
  }
  return ms;
}

// Layers as they are under the best choice so far, or, before there is one, under the strategy that needs least memory.
PartitionCosts LayerwiseSearch::costs_of(const Pipeline& pipeline, const Partition& partition) const {
  const std::vector<std::int32_t>& types = formulas_.profile().type_of;
  const StageTable& table = *pipeline.table;
  PartitionCosts costs;
  costs.layers = static_cast<std::int32_t>(types.size());
  costs.stages = pipeline.stages;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) costs.reserved.push_back(table.reserved_mib(s));
  std::vector<std::int32_t> of;
  if (pipeline.best_partition == partition) {
    for (const StagePoint* const choice : pipeline.best_choices) {
      of.insert(of.end(), choice->strategies.begin(), choice->strategies.end());
    }
  }
  for (std::size_t i = of.size(); i < types.size(); ++i) of.push_back(table.leanest(types[i]));
  for (std::size_t i = 0; i < types.size(); ++i) costs.ms.push_back(table.cost(0, types[i], of[i]).sync_ms);
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      const LayerCost& cost = table.cost(s, types[i], of[i]);
      costs.mib.push_back(cost.kept_mib + cost.states_mib + cost.peak_mib);
    }
  }
  return costs;
}

// Algorithm 2, from the memory-balanced partition; the time-balanced and the even one besides.
void LayerwiseSearch::adjust(Pipeline& pipeline) {
  const auto layers = static_cast<std::int32_t>(formulas_.profile().type_of.size());
  const PartitionCosts leanest = costs_of(pipeline, {});
  const Partition by_memory = memory_balanced(leanest);
  const Partition by_time = time_balanced(leanest);
  std::deque<Partition> queue{by_memory};
  std::set<Partition> seen{by_memory};
  while (!queue.empty() && !stop_()) {
    const Partition partition = queue.front();
    queue.pop_front();
    const double before = pipeline.best_ms;
    const double ms = try_partition(pipeline, partition, partition == by_memory ? "memory-balanced" : "adjusted");
    if (ms > before * (1 + 1e-9)) continue;  // no better than where it came from
    const PartitionCosts costs = costs_of(pipeline, partition);
    const double most = std::max(costs.most_mib(by_time), costs.most_mib(partition));
    for (Partition& next : adjustments(costs, partition, formulas_.limit_mib(), most)) {
      if (seen.insert(next).second) queue.push_back(std::move(next));
    }
  }
  try_partition(pipeline, by_time, "time-balanced");
  if (pipeline.stages > 1) try_partition(pipeline, even_partition(layers, pipeline.stages), "even");
}

// Single layers over single cuts, until none helps.
void LayerwiseSearch::climb(Pipeline& pipeline) {
  if (pipeline.stages == 1 || pipeline.best_ms == kInfinite) return;
  // A pipeline far behind does not get ahead by single layers.
  constexpr double kFarBehind = 1.5;
  bool better = pipeline.best_ms < best_ms_ * kFarBehind;
  while (better && !stop_()) {
    better = false;
    for (const Partition& next : neighbours(pipeline.best_partition)) {
      const double before = pipeline.best_ms;
      better = try_partition(pipeline, next, "one layer moved") < before * (1 - kGain) || better;
    }
  }
}

}  // namespace trimtab::tuner::galvatron
