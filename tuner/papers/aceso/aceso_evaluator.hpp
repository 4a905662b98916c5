#pragma once

// The aceso model's evaluator: uniform stages from prefix sums, others operator by operator, both memoized; the
// iteration by the published formula. One per search; not thread-safe.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "papers/aceso/recompute_rule.hpp"
#include "papers/aceso/stage_pricers.hpp"
#include "papers/aceso_cost_model.hpp"
#include "pricing/evaluator.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::aceso {

struct StageKey {
  std::uint64_t range = 0;  // never 0 for a stage
  std::uint64_t how = 0;
  bool operator==(const StageKey&) const = default;
};

// A hash table from a packed stage to its time and memory: open addressing, no allocation but when it grows.
class StageMemo {
 public:
  StageMemo() : slots_(1024) {}

  // The slot of the key; `found` says whether its cost was known. Valid until the next call.
  [[nodiscard]] StageCost& find(const StageKey& key, bool& found) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slots_[index_of(key)];
    found = slot.key == key;
    if (!found) {
      slot.key = key;
      ++used_;
    }
    return slot.cost;
  }

 private:
  struct Slot {
    StageKey key;
    StageCost cost;
  };

  [[nodiscard]] std::size_t index_of(const StageKey& key) const {
    std::uint64_t hash = key.range * 0x9e3779b97f4a7c15U ^ key.how * 0xbf58476d1ce4e5b9U;
    hash ^= hash >> 29;
    hash *= 0x94d049bb133111ebU;
    hash ^= hash >> 32;
    std::size_t index = hash & (slots_.size() - 1);
    while (slots_[index].key.range != 0 && !(slots_[index].key == key)) index = (index + 1) & (slots_.size() - 1);
    return index;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key.range != 0) slots_[index_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t used_ = 0;
};

class AcesoEvaluator final : public Evaluator, public StagePricers {
 public:
  AcesoEvaluator(const AcesoCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), tables_(cost_model.tables()), uniform_(cost_model.tables()) {}

  Score price(const Candidate& candidate) override { return compose<true>(candidate); }
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override {
    const Where where{candidate.begin_of(stage), candidate.first_device_of(stage),
                      static_cast<std::int32_t>(candidate.stages.size() - stage)};
    return detailed(candidate.microbatch, candidate.stages[stage], where);
  }
  [[nodiscard]] bool prices_stages_apart() const override { return true; }
  Plan plan(const Candidate& candidate) override {
    std::vector<std::vector<Range>> recompute;
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      recompute.push_back(stage(candidate, s).recompute_ranges);
    }
    return plan_of(candidate, model(), recompute);
  }
  std::string excess_text(const Candidate& candidate) override {
    return cost_model().evaluate(plan(candidate)).infeasible_reason;
  }
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override {
    const std::int32_t setting = setting_of(microbatch, split);
    if (setting < 0) return {};
    key_.assign({microbatch, split.dp, split.tp});
    const auto found = sums_.find(key_);
    if (found != sums_.end()) return found->second;
    const std::int32_t microbatches = model().global_batch / microbatch;
    std::vector<double> sums;
    for (const Sums& of : tables_.table(setting).sums) sums.push_back((of.forward + of.backward) / 1000 * microbatches);
    if (!tables_.measured(setting, 0, tables_.operators())) sums.clear();
    return sums_.emplace(key_, std::move(sums)).first->second;
  }

  StagePricers* stage_pricers() override { return this; }
  std::unique_ptr<StagePricer> stage_pricer(std::int32_t microbatch) override {
    if (!needs_paths(space())) return uniform_stage_pricer(tables_, uniform_, model(), space(), microbatch);
    return mixed_stage_pricer(tables_, uniform_, model(), space(), microbatch, PricerMode::kTimes);
  }
  std::unique_ptr<StagePricer> floor_pricer(std::int32_t microbatch) override {
    if (!needs_paths(space())) return nullptr;
    return mixed_stage_pricer(tables_, uniform_, model(), space(), microbatch, PricerMode::kFloors);
  }

  // price() without the memo: every stage is derived anew. For benchmarks and tests.
  Score price_from_scratch(const Candidate& candidate) { return compose<false>(candidate); }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();  // us of a stage that was not measured
  static std::vector<OperatorSplit> splits_of(const Tables& tables, std::int32_t microbatch,
                                              const CandidateStage& stage, std::int32_t begin) {
    std::vector<std::uint8_t> alternate(static_cast<std::size_t>(stage.end - begin), 0);
    mark(stage.alternate, begin, alternate);
    std::vector<OperatorSplit> splits;
    std::int32_t op = begin;
    for (const CandidateSegment& segment : segments_of(stage)) {
      const Split& split = segment.split;
      for (; op < segment.end; ++op) {
        const bool other = alternate[op - begin] != 0;
        splits.push_back({tables.setting(microbatch / split.dp, split.tp, other), split.dp, split.tp, other});
      }
    }
    return splits;
  }

  static bool all_measured(const Tables& tables, std::int32_t begin, const std::vector<OperatorSplit>& splits) {
    for (std::size_t i = 0; i < splits.size(); ++i) {
      if (!tables.row(splits[i].setting, begin + static_cast<std::int32_t>(i)).measured) return false;
    }
    return true;
  }

  // Whether stages of the space are more than one split with recompute by the published rule.
  static bool needs_paths(const PlanSpace& space) { return space.mixed_splits || !space.derived_recompute; }

  struct Where {  // a stage of a candidate
    std::int32_t begin, first_device, copies;
  };

  // Free recompute, where the space has it, is chosen stage by stage and not from prefix sums.
  [[nodiscard]] static bool is_uniform(const CandidateStage& stage) {
    return stage.segments.empty() && stage.alternate.empty() && !stage.recompute && stage.further == 0;
  }
  [[nodiscard]] std::int32_t setting_of(std::int32_t microbatch, const Split& split) const {
    return tables_.setting(microbatch / split.dp, split.tp, false);
  }
  [[nodiscard]] StageCost uniform_cost(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
    const std::int32_t setting = setting_of(microbatch, stage.split);
    if (!tables_.measured(setting, where.begin, stage.end)) return {kInfinite, 0};
    return uniform_.price({where.begin, stage.end, setting, stage.split.dp, stage.split.tp, place_of(stage, where)});
  }
  [[nodiscard]] StageCost cost_of(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
    if (!is_uniform(stage) || !space().derived_recompute) {
      const StagePrice& price = detailed(microbatch, stage, where);
      if (!price.priced) return {kInfinite, 0};
      const double us = (price.forward + price.backward + price.recompute + price.communication) * 1000;
      return {us, price.memory_bytes / kMiB};
    }
    const Place place = place_of(stage, where);
    const auto pack = [](std::int64_t high, std::int64_t low) {
      return static_cast<std::uint64_t>(high) << 32 | static_cast<std::uint64_t>(low);
    };
    const StageKey key{pack(where.begin, stage.end),
                       pack(stage.split.dp * 4 + (place.inter_node_input ? 2 : 0) + (place.inter_node_output ? 1 : 0),
                            stage.split.tp) ^
                           pack(where.copies << 16, static_cast<std::int64_t>(microbatch) << 12)};
    bool found = false;
    StageCost& cost = memo_.find(key, found);
    if (!found) cost = uniform_cost(microbatch, stage, where);
    return cost;
  }
  [[nodiscard]] Place place_of(const CandidateStage& stage, const Where& where) const {
    return aceso::place_of(tables_, where.copies, where.first_device, stage.devices);
  }
  const StagePrice& detailed(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
    const Place place = place_of(stage, where);
    key_.assign({where.begin, stage.end, microbatch, stage.devices, place.copies, place.inter_node_input ? 1 : 0,
                 place.inter_node_output ? 1 : 0, stage.further, stage.split.dp, stage.split.tp});
    key_.push_back(static_cast<std::int32_t>(stage.segments.size()));
    for (const CandidateSegment& segment : stage.segments) {
      key_.insert(key_.end(), {segment.end, segment.split.dp, segment.split.tp});
    }
    append(stage.alternate, key_);
    key_.push_back(stage.recompute ? 1 : 0);
    if (stage.recompute) append(*stage.recompute, key_);
    const auto found = details_.find(key_);
    if (found != details_.end()) return found->second;
    return details_.emplace(key_, price_stage(microbatch, stage, where)).first->second;
  }
  [[nodiscard]] StagePrice price_stage(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
    const std::vector<OperatorSplit> splits = splits_of(tables_, microbatch, stage, where.begin);
    const Place place = place_of(stage, where);
    std::vector<std::uint8_t> flags(splits.size(), 0);
    if (stage.recompute) {
      mark(*stage.recompute, where.begin, flags);
    } else if (space().derived_recompute) {
      derive_recompute(tables_, where.begin, splits, place, flags);
    } else {
      choose_recompute(tables_, where.begin, splits, place, flags);
    }
    recompute_further(tables_, where.begin, splits, stage.further, flags);
    const StageParts parts = stage_parts(tables_, where.begin, splits, flags, place);
    StagePrice price;
    price.priced = all_measured(tables_, where.begin, splits);
    price.forward = parts.forward / 1000;
    price.backward = parts.backward / 1000;
    price.recompute = parts.recompute / 1000;
    price.communication = (parts.in + parts.out) / 1000;
    price.last_backward = price.tail = price.backward + price.recompute;
    price.step_ms = parts.time() / 1000 * (model().global_batch / microbatch);
    price.memory_bytes = parts.memory * kMiB;
    price.limit_bytes = tables_.memory_limit() * kMiB;
    price.excess_bytes = std::max(0.0, price.memory_bytes - price.limit_bytes);
    price.recompute_ranges = ranges_of(flags, where.begin);
    return price;
  }
  template <bool kMemoized>
  Score compose(const Candidate& candidate) {
    count();
    Where where{0, 0, static_cast<std::int32_t>(candidate.stages.size())};
    double sum = 0;
    double largest = 0;
    double memory = 0;
    for (const CandidateStage& stage : candidate.stages) {
      const StageCost cost =
          kMemoized ? cost_of(candidate.microbatch, stage, where) : uniform_cost(candidate.microbatch, stage, where);
      sum += cost.time;
      largest = std::max(largest, cost.time);
      memory = std::max(memory, cost.memory);
      where = {stage.end, where.first_device + stage.devices, where.copies - 1};
    }
    Score score;
    score.priced = largest < kInfinite;
    if (!score.priced) return score;
    score.excess_bytes = memory > tables_.memory_limit() ? (memory - tables_.memory_limit()) * kMiB : 0;
    const std::int32_t microbatches = model().global_batch / candidate.microbatch;
    score.ms = (largest * (microbatches - 1) + sum) / 1000;
    return score;
  }

  const Tables& tables_;
  UniformStages uniform_;
  StageMemo memo_;
  std::unordered_map<LookupKey, StagePrice, LookupKeyHash> details_;
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
  LookupKey key_;
};

}  // namespace trimtab::tuner::aceso
