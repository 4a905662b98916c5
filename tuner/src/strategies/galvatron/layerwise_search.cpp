#include "strategies/galvatron/layerwise_search.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRoundingMib = 1e-6;
constexpr double kGain = 1e-12;

}  // namespace

struct LayerwiseSearch::Pipeline {
  std::int32_t stages = 1;
  std::int32_t microbatches = 1;
  bool plain_replicas = false;
  std::vector<LayerStrategy> strategies;
  bool recompute = false;                                  // some of the strategies do
  std::vector<std::vector<std::vector<LayerCost>>> costs;  // by stage, type and strategy; infinite where it has none
  std::vector<std::vector<double>> changes;                // by type
  std::vector<double> reserved;                            // by stage
  std::vector<double> recompute_reserve;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, Weight>, std::optional<StageChoice>> solved;
  std::map<Partition, double> tried;
  Partition best_partition;
  std::vector<std::vector<std::int32_t>> best_choice;  // strategies by stage
  double best_ms = kInfinite;
};

LayerwiseSearch::LayerwiseSearch(const Formulas& formulas, LayerwiseSpace space,
                                 std::function<void(const Tried&)> tried, std::function<bool()> stop)
    : formulas_(formulas), space_(std::move(space)), tried_(std::move(tried)), stop_(std::move(stop)) {
  may_cut_.assign(formulas.profile().type_of.size() + 1, false);
  for (const std::int32_t cut : space_.cuts) may_cut_[static_cast<std::size_t>(cut)] = true;
}

bool LayerwiseSearch::allowed(const Partition& partition) const {
  for (std::size_t s = 0; s + 1 < partition.size(); ++s) {
    if (!may_cut_[static_cast<std::size_t>(partition[s])]) return false;
  }
  return true;
}

std::optional<LayeredPlan> LayerwiseSearch::run(double below_ms) {
  best_ms_ = below_ms;
  const auto layers = static_cast<std::int32_t>(formulas_.profile().type_of.size());
  for (std::int32_t stages = 1; stages <= std::min(space_.stages_max, layers); stages *= 2) {
    if (stages < space_.stages_min || formulas_.profile().devices % stages != 0) continue;
    if (formulas_.variant() == Variant::kV1) {
      search(stages, 1);
      continue;
    }
    for (const std::int32_t microbatch : space_.microbatches) {
      if (!stop_()) search(stages, space_.batch / microbatch);
    }
  }
  return best_;
}

void LayerwiseSearch::search(std::int32_t stages, std::int32_t microbatches) {
  Pipeline pipeline;
  pipeline.stages = stages;
  pipeline.microbatches = microbatches;
  if (!prepare(pipeline) || least_ms(pipeline) >= best_ms_) return;
  adjust(pipeline);
  climb(pipeline);
}

// The strategies that every type of layer may take, or some type; their costs.
bool LayerwiseSearch::prepare(Pipeline& pipeline) const {
  const Profile& profile = formulas_.profile();
  const std::int32_t devices = profile.devices / pipeline.stages;
  const Variant variant = formulas_.variant();
  pipeline.plain_replicas = variant == Variant::kV2 && !space_.shared_states;
  const std::int32_t microbatch = space_.batch / pipeline.microbatches;
  TreeRules rules;
  rules.recompute = space_.recompute;
  rules.strided = space_.strided;
  for (const LayerStrategy& strategy : decision_tree(devices, rules)) {
    const bool degrees = std::count(space_.tensor_parallel.begin(), space_.tensor_parallel.end(), strategy.tp()) > 0 &&
                         microbatch % strategy.replicas() == 0 && (space_.sharded || strategy.sharded() == 1);
    bool any = false;
    for (std::size_t type = 0; type < profile.types.size(); ++type) {
      any = any || formulas_.has(static_cast<std::int32_t>(type), strategy, pipeline.stages);
    }
    if (!degrees || !any) continue;
    pipeline.strategies.push_back(strategy);
    pipeline.recompute = pipeline.recompute || strategy.recompute;
  }
  if (pipeline.strategies.empty()) return false;
  Situation at{space_.batch, pipeline.microbatches, pipeline.stages, 0};
  for (; at.stage < pipeline.stages; ++at.stage) {
    pipeline.reserved.push_back(formulas_.reserved_mib(at, pipeline.plain_replicas));
    pipeline.recompute_reserve.push_back(formulas_.recompute_reserve_mib(at));
    auto& of_stage = pipeline.costs.emplace_back(profile.types.size());
    for (std::size_t type = 0; type < profile.types.size(); ++type) {
      for (const LayerStrategy& strategy : pipeline.strategies) {
        const auto number = static_cast<std::int32_t>(type);
        LayerCost cost;
        cost.plain_ms = cost.sync_ms = kInfinite;
        if (formulas_.has(number, strategy, pipeline.stages)) {
          cost = formulas_.layer(number, strategy, at, pipeline.plain_replicas);
        }
        of_stage[type].push_back(cost);
      }
    }
  }
  at.stage = 0;
  if (variant == Variant::kV2) return true;  // changes cost nothing
  for (std::size_t type = 0; type < profile.types.size(); ++type) {
    auto& of = pipeline.changes.emplace_back();
    for (const LayerStrategy& from : pipeline.strategies) {
      for (const LayerStrategy& to : pipeline.strategies) {
        of.push_back(formulas_.layout_change_ms(static_cast<std::int32_t>(type), from, to, at));
      }
    }
    if (std::all_of(of.begin(), of.end(), [](double ms) { return ms == 0; })) of.clear();
  }
  return true;
}

// No plan of the pipeline takes less: layers at their quickest, spread evenly.
double LayerwiseSearch::least_ms(const Pipeline& pipeline) const {
  double plain = 0;
  double sync = 0;
  double longest = 0;
  for (const std::int32_t type : formulas_.profile().type_of) {
    double least_plain = kInfinite;
    double least_sync = kInfinite;
    for (const LayerCost& cost : pipeline.costs.front()[static_cast<std::size_t>(type)]) {
      least_plain = std::min(least_plain, cost.plain_ms);
      least_sync = std::min(least_sync, cost.sync_ms);
    }
    plain += least_plain;
    sync += least_sync;
    longest = std::max(longest, least_plain);
  }
  const double pace = std::max(longest, plain / pipeline.stages);
  if (formulas_.variant() == Variant::kV1) return sync;
  if (formulas_.variant() == Variant::kPaper) return (pipeline.microbatches - 1) * pace + sync;
  // What synchronization hides behind filling is at most all of it, but not on the first stage alone.
  const double tail = pipeline.stages == 1 ? sync - plain : 0;
  return pace * (pipeline.microbatches - 1 + pipeline.stages) + tail;
}

std::optional<LayerwiseSearch::StageChoice> LayerwiseSearch::solve_within(const Pipeline& pipeline,
                                                                          const ChainProblem& problem,
                                                                          std::int32_t stage) const {
  std::optional<ChainChoice> choice = solve_chain(problem);
  if (!choice) return std::nullopt;
  StageChoice result;
  result.memory_mib = choice->memory;
  for (std::size_t i = 0; i < choice->strategies.size(); ++i) {
    const auto type = static_cast<std::size_t>(problem.kinds[i]);
    const auto s = static_cast<std::size_t>(choice->strategies[i]);
    const LayerCost& cost = pipeline.costs[static_cast<std::size_t>(stage)][type][s];
    double change = 0;
    if (i > 0 && !pipeline.changes.empty() && !pipeline.changes[type].empty()) {
      change =
          pipeline.changes[type][static_cast<std::size_t>(choice->strategies[i - 1]) * pipeline.strategies.size() + s];
    }
    result.sum.plain_ms += cost.plain_ms + change;
    result.sum.sync_ms += cost.sync_ms + change;
  }
  result.strategies = std::move(choice->strategies);
  return result;
}

std::optional<LayerwiseSearch::StageChoice> LayerwiseSearch::solve(const Pipeline& pipeline, std::int32_t begin,
                                                                   std::int32_t end, std::int32_t stage,
                                                                   Weight weight) const {
  const bool every = weight == Weight::kEveryMicrobatch && formulas_.variant() != Variant::kV1;
  const bool hidden = weight == Weight::kOnce && formulas_.variant() == Variant::kV2;
  // v2 counts the filling of all other stages at the slowest one's pace.
  const double filling = formulas_.variant() == Variant::kV2 ? pipeline.stages - 1 : 0;
  const double plain_times = every ? pipeline.microbatches - 1 + filling : hidden ? 1 : 0;
  const double sync_times = hidden ? 0 : 1;
  ChainProblem problem;
  problem.strategies = static_cast<std::int32_t>(pipeline.strategies.size());
  problem.limit = formulas_.limit_mib() - pipeline.reserved[static_cast<std::size_t>(stage)] + kRoundingMib;
  const std::vector<std::int32_t>& types = formulas_.profile().type_of;
  problem.kinds.assign(types.begin() + begin, types.begin() + end);
  for (const std::vector<LayerCost>& of : pipeline.costs[static_cast<std::size_t>(stage)]) {
    std::vector<ChainCost>& kind = problem.costs.emplace_back();
    for (const LayerCost& cost : of) {
      ChainCost& chain = kind.emplace_back();
      chain.time = cost.plain_ms < kInfinite ? plain_times * cost.plain_ms + sync_times * cost.sync_ms : kInfinite;
      chain.kept = cost.kept_mib;
      chain.states = cost.states_mib;
      chain.peak = cost.peak_mib;
      // Whole MiB: sums must not differ by what dividing them has rounded.
      if (formulas_.variant() == Variant::kPaper) continue;
      chain.kept = std::round(cost.kept_mib + cost.states_mib);
      chain.states = 0;
    }
  }
  problem.changes = pipeline.changes;
  for (std::vector<double>& of : problem.changes) {
    for (double& ms : of) ms *= plain_times + sync_times;
  }
  const double reserve = pipeline.recompute_reserve[static_cast<std::size_t>(stage)];
  if (!pipeline.recompute || reserve <= 0) return solve_within(pipeline, problem, stage);
  // Without recompute a stage need not hold what recomputing takes.
  ChainProblem without = problem;
  for (std::vector<ChainCost>& of : without.costs) {
    for (std::size_t s = 0; s < of.size(); ++s) {
      if (pipeline.strategies[s].recompute) of[s].time = kInfinite;
    }
  }
  std::optional<StageChoice> plain = solve_within(pipeline, without, stage);
  problem.limit -= reserve;
  std::optional<StageChoice> with = solve_within(pipeline, problem, stage);
  const auto ms = [&](const StageChoice& choice) {
    return plain_times * choice.sum.plain_ms + sync_times * choice.sum.sync_ms;
  };
  if (!with || (plain && ms(*plain) <= ms(*with))) return plain;
  return with;
}

const std::optional<LayerwiseSearch::StageChoice>& LayerwiseSearch::stage(Pipeline& pipeline, std::int32_t begin,
                                                                          std::int32_t end, std::int32_t stage,
                                                                          Weight weight) {
  const auto [at, fresh] = pipeline.solved.try_emplace({begin, end, stage, weight});
  if (fresh) at->second = solve(pipeline, begin, end, stage, weight);
  return at->second;
}

double LayerwiseSearch::try_partition(Pipeline& pipeline, const Partition& partition, const char* step) {
  if (const auto known = pipeline.tried.find(partition); known != pipeline.tried.end()) return known->second;
  double& ms = pipeline.tried.emplace(partition, kInfinite).first->second;
  if (!allowed(partition) || stop_()) return ms;
  ++partitions_;
  std::vector<const StageChoice*> choices;
  std::vector<StageSum> sums;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const std::int32_t begin = s == 0 ? 0 : partition[static_cast<std::size_t>(s - 1)];
    const auto& choice = stage(pipeline, begin, partition[static_cast<std::size_t>(s)], s, Weight::kEveryMicrobatch);
    if (!choice) return ms;
    choices.push_back(&*choice);
    sums.push_back(choice->sum);
  }
  ms = formulas_.iteration_ms(sums, pipeline.microbatches);
  // A stage that is not the slowest counts once: what it does beside others it may do slower, to synchronize less.
  const bool weighed = pipeline.stages > 1 && formulas_.variant() != Variant::kV1;
  for (std::int32_t s = 0; weighed && s < pipeline.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int32_t begin = s == 0 ? 0 : partition[at - 1];
    const auto& once = stage(pipeline, begin, partition[at], s, Weight::kOnce);
    if (!once) continue;
    std::vector<StageSum> with = sums;
    with[at] = once->sum;
    const double changed = formulas_.iteration_ms(with, pipeline.microbatches);
    if (changed >= ms * (1 - kGain)) continue;
    ms = changed;
    sums = std::move(with);
    choices[at] = &*once;
  }
  LayeredPlan plan;
  plan.batch = space_.batch;
  plan.microbatches = pipeline.microbatches;
  plan.plain_replicas = pipeline.plain_replicas;
  PartitionCosts costs{pipeline.stages, pipeline.stages, {}, {}, {}};
  Partition single;
  std::vector<std::vector<std::int32_t>> strategies;
  std::int32_t begin = 0;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const StageChoice& choice = *choices[static_cast<std::size_t>(s)];
    StageLayers& layers = plan.stages.emplace_back();
    layers.operators = {begin, partition[static_cast<std::size_t>(s)]};
    for (const std::int32_t strategy : choice.strategies) {
      layers.strategies.push_back(pipeline.strategies[static_cast<std::size_t>(strategy)]);
    }
    begin = layers.operators.end;
    strategies.push_back(choice.strategies);
    costs.ms.push_back(choice.sum.sync_ms);
    costs.reserved.push_back(pipeline.reserved[static_cast<std::size_t>(s)] + choice.memory_mib);
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
  if (tried_) tried_(tried);
  if (tried.better) {
    best_ = plan;
    best_ms_ = ms;
  }
  if (ms < pipeline.best_ms) {
    pipeline.best_ms = ms;
    pipeline.best_partition = partition;
    pipeline.best_choice = std::move(strategies);
  }
  return ms;
}

// Layers as they are under the best choice so far, or, before there is one, under the strategy that needs least memory.
PartitionCosts LayerwiseSearch::costs_of(const Pipeline& pipeline, const Partition& partition) const {
  const std::vector<std::int32_t>& types = formulas_.profile().type_of;
  PartitionCosts costs;
  costs.layers = static_cast<std::int32_t>(types.size());
  costs.stages = pipeline.stages;
  costs.reserved = pipeline.reserved;
  std::vector<std::size_t> of(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::vector<LayerCost>& kind = pipeline.costs.front()[static_cast<std::size_t>(types[i])];
    for (std::size_t s = 0; s < kind.size(); ++s) {
      const auto mib = [&](std::size_t k) { return kind[k].kept_mib + kind[k].states_mib; };
      if (kind[s].plain_ms < kInfinite && (kind[of[i]].plain_ms == kInfinite || mib(s) < mib(of[i]))) of[i] = s;
    }
  }
  if (!pipeline.best_choice.empty() && pipeline.best_partition == partition) {
    std::size_t layer = 0;
    for (const std::vector<std::int32_t>& stage : pipeline.best_choice) {
      for (const std::int32_t s : stage) of[layer++] = static_cast<std::size_t>(s);
    }
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    costs.ms.push_back(pipeline.costs.front()[static_cast<std::size_t>(types[i])][of[i]].sync_ms);
  }
  for (const auto& stage : pipeline.costs) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      const LayerCost& cost = stage[static_cast<std::size_t>(types[i])][of[i]];
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
