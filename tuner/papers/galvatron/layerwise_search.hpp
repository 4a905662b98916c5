#pragma once

// Galvatron-BMW's whole search over a galvatron cost model's formulas: pipeline degrees and counts of microbatches
// (Algorithm 1 at one batch), partitions from memory-balanced to time-balanced (Algorithm 2), a strategy for every
// layer of every stage (equation 4); then all other partitions at once, exactly or with a bound. One per search; not
// thread-safe.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "papers/galvatron/cut_program.hpp"
#include "papers/galvatron/layered_plan.hpp"
#include "papers/galvatron/layerwise_tables.hpp"
#include "strategies/galvatron/partition.hpp"

namespace trimtab::tuner::galvatron {

// A partition that was tried: for traces and for those who keep plans.
struct Tried {
  const LayeredPlan* plan = nullptr;
  double ms = std::numeric_limits<double>::infinity();
  double before_ms = 0;    // of the best so far
  const char* step = "";   // "memory-balanced", "adjusted", ...
  BalanceDegrees balance;  // of what the stages really take
  bool better = false;
};

class LayerwiseSearch {
 public:
  // Of every plan that fits; false: it must not be used.
  using Listener = std::function<bool(const Tried&)>;

  // Borrows the formulas. `tried` may be null. `stop` is asked before every partition. `tables` may be those of another
  // batch's search with the same space; null = its own.
  LayerwiseSearch(const Formulas& formulas, LayerwiseSpace space, Listener tried, std::function<bool()> stop,
                  std::shared_ptr<LayerwiseTables> tables = nullptr)
      : formulas_(formulas),
        space_(std::move(space)),
        tried_(std::move(tried)),
        stop_(std::move(stop)),
        tables_(tables ? std::move(tables) : std::make_shared<LayerwiseTables>(formulas_, space_)) {
    may_cut_.assign(formulas.profile().type_of.size() + 1, false);
    for (const std::int32_t cut : space_.cuts) may_cut_[static_cast<std::size_t>(cut)] = true;
  }

  // The quickest plan found that takes less than `below_ms`; nothing where none fits or is quicker.
  std::optional<LayeredPlan> run(double below_ms = std::numeric_limits<double>::infinity()) {
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
  [[nodiscard]] double best_ms() const { return best_ms_; }
  // No plan of the space takes less, as far as that is below best_ms(); after run().
  [[nodiscard]] double lower_bound_ms() const { return lower_bound_ms_; }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kGain = 1e-12;
  // No plan of the pipeline takes less: layers at their quickest, spread evenly.
  static double least_ms(Variant variant, const LayerwiseTables::Quickest& quickest, std::int32_t stages,
                         std::int32_t microbatches) {
    const double pace = std::max(quickest.longest, quickest.plain / stages);
    if (variant == Variant::kV1) return quickest.sync;
    if (variant == Variant::kPaper) return (microbatches - 1) * pace + quickest.sync;
    // What synchronization hides behind filling is at most all of it, but not on the first stage alone.
    const double tail = stages == 1 ? quickest.sync - quickest.plain : 0;
    return pace * (microbatches - 1 + stages) + tail;
  }

  // Of two paths with the same rest the one of the quicker pace: this much of the pace counts as rest.
  static constexpr double kQuicker = 1e-11;
  static constexpr int kPaces = 512;  // that are looked at in a row; a search has a few dozen

  using Choices = std::vector<const StagePoint*>;  // by stage

  // One pipeline degree and count of microbatches.
  struct Pipeline {
    std::int32_t stages = 1;
    std::int32_t microbatches = 1;
    double least_ms = 0;  // with layers at their quickest
    double bound_ms = 0;  // no plan of it takes less
    StageTable* table = nullptr;
    std::map<Partition, double> tried;
    Partition best_partition;
    Choices best_choices;
    double best_ms = std::numeric_limits<double>::infinity();

    // The weight of a stage's synchronization beside its plain time (weighed()): in an iteration whose slowest stage it
    // is, where v2 counts the filling of all other stages at its pace too; and in one that counts it once.
    [[nodiscard]] double every_share(Variant variant) const {
      if (variant == Variant::kV1) return 0;
      return 1 / (paces(variant) + (variant == Variant::kV2 ? 1 : 2));
    }
    [[nodiscard]] double once_share(Variant variant) const { return variant == Variant::kPaper ? 0.5 : 0; }
    // Plain times of the slowest stage in an iteration.
    [[nodiscard]] double paces(Variant variant) const {
      return microbatches - 1 + (variant == Variant::kV2 ? stages : 0);
    }
  };

  // The most promising first: what it finds spares most of the others.
  [[nodiscard]] std::vector<Pipeline> pipelines() {
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
  void search(Pipeline& pipeline) {
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
  // Whoever listens wants plans besides the best: even partitions of pipelines that were passed over.
  void try_runners_up(std::vector<Pipeline>& pipelines) {
    constexpr int kRunnersUp = 8;
    int left = kRunnersUp;
    for (Pipeline& pipeline : pipelines) {
      if (!pipeline.tried.empty()) continue;
      if (left-- == 0) return;
      pipeline.table = &tables_->table(pipeline.stages, space_.batch, pipeline.microbatches);
      try_partition(pipeline, even_partition(tables_->ranges().layers(), pipeline.stages), "even");
    }
  }
  // Ms of the best plan of the partition; infinite where none fits. Begins with `choices`, if any.
  double try_partition(Pipeline& pipeline, const Partition& partition, const char* step, const Choices& choices = {}) {
    const auto known = pipeline.tried.find(partition);
    if (known != pipeline.tried.end() && choices.empty()) return known->second;
    double& ms = pipeline.tried.try_emplace(partition, kInfinite).first->second;
    if (!allowed(partition) || stop_()) return ms;
    Choices with = choices;
    const double found = polish(pipeline, partition, with);
    if (found < ms) ms = report(pipeline, partition, with, found, step);
    return ms;
  }
  // The slowest stage counts with every microbatch, the others once: what they do beside it they may do slower, to
  // synchronize less.
  double polish(const Pipeline& pipeline, const Partition& partition, Choices& choices) {
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
  double report(Pipeline& pipeline, const Partition& partition, const Choices& choices, double ms, const char* step) {
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
  // Algorithm 2, from the memory-balanced partition; the time-balanced and the even one besides.
  void adjust(Pipeline& pipeline) {
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
  void climb(Pipeline& pipeline) {
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
  // Layers as they are under the best choice so far, or, before there is one, under the strategy that needs least
  // memory.
  [[nodiscard]] PartitionCosts costs_of(const Pipeline& pipeline, const Partition& partition) const {
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
  [[nodiscard]] bool allowed(const Partition& partition) const {
    for (std::size_t s = 0; s + 1 < partition.size(); ++s) {
      if (!may_cut_[static_cast<std::size_t>(partition[s])]) return false;
    }
    return true;
  }

  // What no partition of the pipeline takes less than, infinite where nothing fits: at a glance; and as exactly as can
  // be, trying better partitions that turn up.
  double quick_bound(const Pipeline& pipeline) {
    const Variant variant = formulas_.variant();
    const auto floor = [&](CutGoal goal, double share) {
      return best_cuts(shape_of(pipeline), goal, pipeline.table->values(share), kInfinite, nullptr).least;
    };
    if (variant == Variant::kV1) return floor(CutGoal::kSum, 0);
    const double paces = pipeline.paces(variant);
    const double sum = variant == Variant::kPaper ? 2 * floor(CutGoal::kSum, 0.5) : 0;
    return paces == 0 ? sum : sum + paces * floor(CutGoal::kMost, 0);
  }
  // An iteration joins its stages in a way of each variant's own. v1: the sum of their times, so the cuts of least sum
  // are the answer. The others: the slowest stage's plain time, its pace, so many times, and a rest. Paper, equation 9:
  // m
  // - 1 paces, the rest is the sum of all times with synchronization. v2: m - 1 + P paces, the rest is what filling
  // does not hide of a stage's synchronization.
  double bound_of(Pipeline& pipeline) {
    if (pipeline.stages == 1) return bound_of_one(pipeline);
    const bool sum_alone = pipeline.paces(formulas_.variant()) == 0 || formulas_.variant() == Variant::kV1;
    return sum_alone ? bound_by_sum(pipeline) : bound_by_pace(pipeline);
  }
  // One stage is chosen exactly.
  double bound_of_one(const Pipeline& pipeline) {
    const std::size_t slot = pipeline.table->slot(0, 0, pipeline.table->ranges().layers());
    const StagePoint* const point = pipeline.table->least(slot, pipeline.every_share(formulas_.variant()));
    return point == nullptr ? kInfinite : formulas_.iteration_ms({&point->sum, 1}, pipeline.microbatches);
  }
  double bound_by_sum(Pipeline& pipeline) {
    const double share = pipeline.once_share(formulas_.variant());
    const double whole = 1 / (1 - share);
    const CutAnswer least = cuts(pipeline, CutGoal::kSum, share, best_ms_ / whole);
    if (!least.partition.empty()) try_partition(pipeline, least.partition, "best cuts");
    return whole * least.least;
  }
  // From the slowest pace that may still be better downwards. The least rest at a pace bounds the plans of that pace
  // and of quicker ones; the path that has it says which pace it really needs, and the search goes on below that.
  double bound_by_pace(Pipeline& pipeline) {
    const Variant variant = formulas_.variant();
    const double paces = pipeline.paces(variant);
    double rest = 0;
    if (variant == Variant::kPaper) {
      const CutAnswer sum = cuts(pipeline, CutGoal::kSum, 0.5, best_ms_ / 2);
      rest = 2 * sum.least;
      if (sum.partition.empty()) return rest;
      try_partition(pipeline, sum.partition, "best cuts");
    }
    const CutAnswer quickest = cuts(pipeline, CutGoal::kMost, 0, (best_ms_ - rest) / paces);
    if (quickest.partition.empty()) return paces * quickest.least + rest;
    try_partition(pipeline, quickest.partition, "best cuts");
    double open = kInfinite;  // least of what was passed without being exact
    double pace = (best_ms_ - rest) / paces;
    for (int i = 0; i < kPaces && pace >= quickest.least && !stop_(); ++i) {
      const CutAnswer answer = cuts_within(pipeline, pace, best_ms_ * (1 - kGain) - paces * quickest.least);
      rest = std::max(rest, answer.least);
      if (answer.partition.empty()) break;
      const Choices choices = choices_within(pipeline, answer.partition, pace);
      try_partition(pipeline, answer.partition, "best cuts", choices);
      std::vector<StageSum> sums;
      double needed = 0;
      for (const StagePoint* const choice : choices) {
        sums.push_back(choice->sum);
        needed = std::max(needed, choice->sum.plain_ms);
      }
      // Plans of a slower pace than this take longer than the best.
      double below = (best_ms_ - rest) / paces;
      if (formulas_.iteration_ms(sums, pipeline.microbatches) <= (paces * needed + rest) * (1 + 10 * kGain)) {
        below = std::min(below, needed * (1 - kGain));
        open = std::min(open, paces * needed + rest);
      } else if (below >= pace * (1 - kGain)) {
        below = pace - (pace - quickest.least) / 16 - kGain * pace;
        open = std::min(open, paces * below + rest);
      }
      pace = below;
    }
    if (pace < quickest.least) return std::min(open, best_ms_);
    return std::min(open, paces * quickest.least + rest);
  }
  CutAnswer cuts(const Pipeline& pipeline, CutGoal goal, double sync_share, double below) {
    CutValues& values = pipeline.table->values(sync_share);
    return best_cuts(
        shape_of(pipeline), goal, values, below,
        [&](std::size_t slot) { pipeline.table->refine(values, slot, sync_share); }, stop_);
  }
  // Of partitions with stages at least so quick: the least of what is not paces, and how.
  // v2: of stage s, what synchronization adds is hidden by s stages before it at the most, each as slow as the pace.
  CutAnswer cuts_within(const Pipeline& pipeline, double pace, double below) {
    StageTable& table = *pipeline.table;
    const auto count = static_cast<std::size_t>(table.ranges().count());
    const bool tail = formulas_.variant() == Variant::kV2;
    const double share = tail ? 1 : 0.5;
    const std::vector<double>& plain = table.values(0).least;
    const std::vector<double>& floor = table.values(share).least;
    const auto rest = [&](std::size_t stage, std::size_t slot, double least) {
      if (!tail) return 2 * least;
      return std::max(0.0, least - static_cast<double>(stage) * pace) + kQuicker * plain[slot];
    };
    CutShape shape = shape_of(pipeline);
    CutValues values;
    values.least.reserve(shape.rows.size() * count);
    for (std::size_t s = 0; s < shape.rows.size(); ++s) {
      for (std::size_t slot = shape.rows[s]; slot < shape.rows[s] + count; ++slot) {
        values.least.push_back(plain[slot] > pace ? kInfinite : rest(s, slot, floor[slot]));
      }
      shape.rows[s] = s * count;
    }
    values.exact.assign(values.least.size(), 0);
    const auto refine = [&](std::size_t where) {
      const std::size_t stage = where / count;
      const std::size_t slot = table.row_of(static_cast<std::int32_t>(stage)) + where % count;
      values.least[where] = rest(stage, slot, table.within(slot, pace, share).least);
    };
    CutAnswer answer = best_cuts(shape, tail ? CutGoal::kMost : CutGoal::kSum, values, below, refine, stop_);
    if (tail) answer.least = std::max(0.0, answer.least - kQuicker * pace);
    return answer;
  }
  Choices choices_within(const Pipeline& pipeline, const Partition& partition, double pace) {
    const double share = formulas_.variant() == Variant::kV2 ? 1 : 0.5;
    Choices choices;
    std::int32_t begin = 0;
    for (std::int32_t s = 0; s < pipeline.stages; ++s) {
      const std::int32_t end = partition[static_cast<std::size_t>(s)];
      choices.push_back(pipeline.table->within(pipeline.table->slot(s, begin, end), pace, share).point);
      begin = end;
    }
    return choices;
  }
  [[nodiscard]] CutShape shape_of(const Pipeline& pipeline) const {
    CutShape shape{&pipeline.table->ranges(), {}, may_cut_};
    for (std::int32_t s = 0; s < pipeline.stages; ++s) shape.rows.push_back(pipeline.table->row_of(s));
    return shape;
  }

  const Formulas& formulas_;
  const LayerwiseSpace space_;
  const Listener tried_;
  const std::function<bool()> stop_;
  const std::shared_ptr<LayerwiseTables> tables_;
  std::vector<bool> may_cut_;
  std::optional<LayeredPlan> best_;
  double best_ms_ = std::numeric_limits<double>::infinity();
  double lower_bound_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace trimtab::tuner::galvatron
