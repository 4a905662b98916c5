#include "papers/aceso/aceso_evaluator.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "papers/aceso/aceso_stage_pricer.hpp"
#include "papers/aceso/free_recompute.hpp"
#include "papers/aceso/mixed_stage_pricer.hpp"
#include "papers/aceso/recompute_rule.hpp"

namespace trimtab::tuner::aceso {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();  // us of a stage that was not measured

std::vector<Range> ranges_of(const std::vector<std::uint8_t>& flags, std::int32_t begin) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == 0) continue;
    const std::int32_t op = begin + static_cast<std::int32_t>(i);
    if (ranges.empty() || ranges.back().end != op) ranges.push_back({op, op});
    ranges.back().end = op + 1;
  }
  return ranges;
}

std::vector<OperatorSplit> splits_of(const Tables& tables, std::int32_t microbatch, const CandidateStage& stage,
                                     std::int32_t begin) {
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

bool all_measured(const Tables& tables, std::int32_t begin, const std::vector<OperatorSplit>& splits) {
  for (std::size_t i = 0; i < splits.size(); ++i) {
    if (!tables.row(splits[i].setting, begin + static_cast<std::int32_t>(i)).measured) return false;
  }
  return true;
}

// Whether stages of the space are more than one split with recompute by the published rule.
bool needs_paths(const PlanSpace& space) {
  return space.mixed_splits || !space.derived_recompute;
}

}  // namespace

AcesoEvaluator::AcesoEvaluator(const AcesoCostModel& cost_model, const PlanSpace& space)
    : Evaluator(cost_model, space), tables_(cost_model.tables()), uniform_(cost_model.tables()) {}

// Free recompute, where the space has it, is chosen stage by stage and not from prefix sums.
bool AcesoEvaluator::is_uniform(const CandidateStage& stage) {
  return stage.segments.empty() && stage.alternate.empty() && !stage.recompute && stage.further == 0;
}

std::int32_t AcesoEvaluator::setting_of(std::int32_t microbatch, const Split& split) const {
  return tables_.setting(microbatch / split.dp, split.tp, false);
}

Place AcesoEvaluator::place_of(const CandidateStage& stage, const Where& where) const {
  return {where.copies, tables_.inter_node_input(where.first_device),
          tables_.inter_node_output(where.first_device + stage.devices)};
}

StageCost AcesoEvaluator::uniform_cost(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
  const std::int32_t setting = setting_of(microbatch, stage.split);
  if (!tables_.measured(setting, where.begin, stage.end)) return {kInfinite, 0};
  const UniformPrice price =
      uniform_.price({where.begin, stage.end, setting, stage.split.dp, stage.split.tp, place_of(stage, where)});
  return {price.time(), price.memory};
}

StageCost AcesoEvaluator::cost_of(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
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
  const StageKey key{
      pack(where.begin, stage.end),
      pack(stage.split.dp * 4 + (place.inter_node_input ? 2 : 0) + (place.inter_node_output ? 1 : 0), stage.split.tp) ^
          pack(where.copies << 16, static_cast<std::int64_t>(microbatch) << 12)};
  bool found = false;
  StageCost& cost = memo_.find(key, found);
  if (!found) cost = uniform_cost(microbatch, stage, where);
  return cost;
}

template <bool kMemoized>
Score AcesoEvaluator::compose(const Candidate& candidate) {
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

Score AcesoEvaluator::price(const Candidate& candidate) {
  return compose<true>(candidate);
}

Score AcesoEvaluator::price_from_scratch(const Candidate& candidate) {
  return compose<false>(candidate);
}

const StagePrice& AcesoEvaluator::stage(const Candidate& candidate, std::size_t stage) {
  const Where where{candidate.begin_of(stage), candidate.first_device_of(stage),
                    static_cast<std::int32_t>(candidate.stages.size() - stage)};
  return detailed(candidate.microbatch, candidate.stages[stage], where);
}

const StagePrice& AcesoEvaluator::detailed(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
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

StagePrice AcesoEvaluator::price_stage(std::int32_t microbatch, const CandidateStage& stage, const Where& where) {
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

Plan AcesoEvaluator::plan(const Candidate& candidate) {
  std::vector<std::vector<Range>> recompute;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    recompute.push_back(stage(candidate, s).recompute_ranges);
  }
  return plan_of(candidate, model(), recompute);
}

std::string AcesoEvaluator::excess_text(const Candidate& candidate) {
  const Prediction prediction = cost_model().evaluate(plan(candidate));
  return prediction.infeasible_reason;
}

std::span<const double> AcesoEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
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

std::unique_ptr<StagePricer> AcesoEvaluator::stage_pricer(std::int32_t microbatch) {
  if (needs_paths(space())) {
    return std::make_unique<MixedStagePricer>(tables_, uniform_, model(), space(), microbatch,
                                              MixedStagePricer::Mode::kTimes);
  }
  return std::make_unique<AcesoStagePricer>(tables_, uniform_, model(), space(), microbatch);
}

std::unique_ptr<StagePricer> AcesoEvaluator::floor_pricer(std::int32_t microbatch) {
  if (!needs_paths(space())) return nullptr;
  return std::make_unique<MixedStagePricer>(tables_, uniform_, model(), space(), microbatch,
                                            MixedStagePricer::Mode::kFloors);
}

}  // namespace trimtab::tuner::aceso
