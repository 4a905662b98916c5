#include "evaluator.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "recompute_choice.hpp"

namespace trimtab::tuner {
namespace {

std::size_t mix(std::initializer_list<std::int32_t> values) {
  std::uint64_t hash = 0x2545f4914f6cdd1dU;
  for (const std::int32_t value : values) {
    hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  return hash;
}

std::vector<std::int32_t> consecutive(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

}  // namespace

std::size_t Evaluator::KeyHash::operator()(const StageKey& key) const {
  return mix({key.begin, key.end, key.first_device, key.devices, key.microbatch, key.in_flight, key.further});
}

std::size_t Evaluator::KeyHash::operator()(const TransferKey& key) const {
  return mix({key.boundary, key.microbatch, key.first_device, key.from, key.to});
}

Evaluator::Evaluator(const CostModel& cost_model, const PlanSpace& space)
    : tables_(&cost_model.table().tables()),
      calibration_(&cost_model.calibration()),
      space_(&space),
      flags_(static_cast<std::size_t>(tables_->operators()), 0) {
  for (std::int32_t device = 0; device < space.devices; ++device) {
    node_of_.push_back(tables_->cluster.node_of(device));
  }
}

Placement Evaluator::placement(std::int32_t first_device, std::int32_t devices) const {
  return node_of_[first_device] == node_of_[first_device + devices - 1] ? Placement::kIntraNode : Placement::kInterNode;
}

double Evaluator::memory_limit(std::int32_t first_device, std::int32_t devices) const {
  Bytes smallest = 0;
  for (std::int32_t device = first_device; device < first_device + devices; ++device) {
    const Bytes bytes = tables_->cluster.nodes[node_of_[device]].memory_bytes;
    if (bytes > 0 && (smallest == 0 || bytes < smallest)) smallest = bytes;
  }
  return static_cast<double>(smallest);
}

// Whether every cost of the stage is there, the all-reduces and the optimizer's included.
bool Evaluator::complete(const StageShape& shape) const {
  const SampleTable* const costs = tables_->find(shape.samples);
  if (costs == nullptr || tables_->process_bytes.quality == Quality::kMissing) return false;
  const auto [begin, end] = shape.operators;
  if (costs->gaps[end] != costs->gaps[begin]) return false;
  const SyncTable* const sync = shape.dp > 1 ? tables_->find_sync(shape.dp, shape.placement) : nullptr;
  if (shape.dp > 1 && sync == nullptr) return false;
  for (std::int32_t i = begin; i < end; ++i) {
    if (tables_->gradient[i] <= 0 && tables_->model.operators[i].parameter_bytes == 0) continue;
    if (tables_->optimizer_of_group[tables_->group_of[i]].quality == Quality::kMissing) return false;
    if (sync != nullptr && sync->all_reduce[i].quality == Quality::kMissing) return false;
  }
  return true;
}

StagePrice Evaluator::price_stage(const StageShape& shape, std::int32_t first_device,
                                  const std::vector<Range>& recompute) {
  StagePrice price;
  price.priced = complete(shape);
  if (!price.priced) return price;
  price.recompute = recompute;
  set_flags(recompute, shape.operators, flags_);
  price.times = stage_times(*tables_, *calibration_, shape, flags_);
  price.limit_bytes = memory_limit(first_device, shape.dp);
  price.memory_bytes = stage_bytes(*tables_, *calibration_, shape, flags_).total();
  const double excess = price.memory_bytes - price.limit_bytes;
  price.excess_bytes = price.limit_bytes > 0 && excess >= 0.5 ? excess : 0;
  return price;
}

StagePrice Evaluator::choose(const StageShape& shape, std::int32_t first_device, std::int32_t further) {
  if (!complete(shape)) return {};
  const RecomputeChoice choice = choose_recompute(*tables_, *calibration_, shape, memory_limit(first_device, shape.dp),
                                                  space_->knobs.recompute, further);
  return price_stage(shape, first_device, choice.recompute);
}

StageShape Evaluator::shape_of(const Candidate& candidate, std::size_t stage, std::int32_t first_device) const {
  const CandidateStage& of = candidate.stages[stage];
  const std::int32_t microbatches = tables_->model.global_batch / candidate.microbatch;
  StageShape shape;
  shape.operators = {candidate.begin_of(stage), of.end};
  shape.dp = of.devices;
  shape.samples = candidate.microbatch / of.devices;
  shape.placement = placement(first_device, of.devices);
  shape.in_flight = in_flight(ScheduleKind::k1F1B, static_cast<std::int32_t>(candidate.stages.size()),
                              static_cast<std::int32_t>(stage), microbatches);
  return shape;
}

const StagePrice& Evaluator::stage_at(const Candidate& candidate, std::size_t stage, std::int32_t first_device) {
  const StageShape shape = shape_of(candidate, stage, first_device);
  const CandidateStage& of = candidate.stages[stage];
  const StageKey key{shape.operators.begin, shape.operators.end, first_device, of.devices,
                     candidate.microbatch,  shape.in_flight,     of.further};
  const auto found = stages_.find(key);
  if (found != stages_.end()) return found->second;
  return stages_.emplace(key, choose(shape, first_device, of.further)).first->second;
}

const StagePrice& Evaluator::stage(const Candidate& candidate, std::size_t stage) {
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < stage; ++s) first_device += candidate.stages[s].devices;
  return stage_at(candidate, stage, first_device);
}

double Evaluator::transfer(std::int32_t boundary, std::int32_t microbatch, std::int32_t first_device, std::int32_t from,
                           std::int32_t to) {
  const TransferKey key{boundary, microbatch, first_device, from, to};
  const auto found = transfers_.find(key);
  if (found != transfers_.end()) return found->second;
  const Value value = transfer_time(*tables_, consecutive(first_device, from), consecutive(first_device + from, to),
                                    tables_->output[boundary - 1], microbatch);
  const double ms = value.quality == Quality::kMissing ? std::numeric_limits<double>::infinity()
                                                       : value.mean * calibration_->communication.value;
  return transfers_.emplace(key, ms).first->second;
}

double Evaluator::simulate_step(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches) {
  ++evaluations_;
  return simulate(stages, count, microbatches, ScheduleKind::k1F1B, scratch_) + tables_->step_overhead_ms +
         calibration_->fixed_ms;
}

Score Evaluator::price(const Candidate& candidate) {
  const std::size_t count = candidate.stages.size();
  pipeline_.resize(count);
  Score score;
  score.priced = true;
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const StagePrice& price = stage_at(candidate, s, first_device);
    if (!price.priced) {
      ++evaluations_;
      return {};
    }
    const StageTimes& times = price.times;
    pipeline_[s] = {times.forward, times.backward_pass(), times.last_backward, times.tail(), 0};
    score.excess_bytes = std::max(score.excess_bytes, price.excess_bytes);
    const std::int32_t devices = candidate.stages[s].devices;
    if (s + 1 < count) {
      pipeline_[s].transfer = transfer(candidate.stages[s].end, candidate.microbatch, first_device, devices,
                                       candidate.stages[s + 1].devices);
    }
    first_device += devices;
  }
  const std::int32_t microbatches = tables_->model.global_batch / candidate.microbatch;
  score.ms = simulate_step(pipeline_.data(), static_cast<std::int32_t>(count), microbatches);
  if (score.ms == std::numeric_limits<double>::infinity()) return {};
  return score;
}

Plan Evaluator::plan(const Candidate& candidate) {
  std::vector<std::vector<Range>> recompute;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) recompute.push_back(stage(candidate, s).recompute);
  return plan_of(candidate, tables_->model, recompute);
}

}  // namespace trimtab::tuner
