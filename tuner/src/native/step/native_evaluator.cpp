#include "native/step/native_evaluator.hpp"

#include "native/step/priced_plan.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kRemembered = 1 << 19;  // stages, some 200 MB
constexpr std::int32_t kSwitched = -2;        // in keys: memory switches follow
constexpr std::int32_t kSubBatchings = 5;     // in keys: ways to divide a microbatch
constexpr std::int32_t kHalf = -1;            // in keys: half a microbatch's forward
constexpr double kNever = std::numeric_limits<double>::infinity();

void put_key(const CandidateStage& of, std::initializer_list<std::int32_t> where, LookupKey& key) {
  key.assign(where);
  key.push_back(of.end);
  key.push_back(of.devices);
  key.push_back(of.recompute ? -1 : of.further);
  append(of.split, key);
  for (const CandidateSegment& segment : of.segments) {
    key.push_back(segment.end);
    append(segment.split, key);
  }
  if (!of.alternate.empty()) append(of.alternate, key);
  if (of.recompute) append(*of.recompute, key);
  if (!of.switches) return;
  key.push_back(kSwitched);
  for (const h3t::SwitchField& field : h3t::kSwitchFields) append((*of.switches).*field.of_plan, key);
}

std::int32_t code_of(const SubBatches& of) {
  if (of.count < 2) return 0;
  return 1 + (of.cross_pass ? 2 : 0) + (of.recompute_after_communication ? 1 : 0);
}

void put_times(const StageTimes& times, StagePrice& price) {
  price.forward = times.forward;
  price.backward = times.backward;
  price.recompute = times.recompute;
  price.forward_wait = times.forward_wait;
  price.backward_wait = times.backward_wait;
  price.communication = times.forward_wait + times.backward_wait;
  price.sync = times.exposed_sync();
  price.optimizer = times.optimizer;
  price.last_backward = times.last_backward;
  price.tail = times.tail();
  price.after = times.optimizer + times.gather_after;
  price.spread = times.spread;
  price.forward_launch = times.launches.forward;
  price.backward_launch = times.launches.backward;
}

double beyond(double bytes, double limit) {
  const double excess = limit > 0 ? bytes - limit : 0;
  return excess >= 0.5 ? excess : 0;
}

// What validate() asks of a stage with memory switches: a move may have changed its splits.
bool may_switch(const Model& model, const CandidateStage& of) {
  if (!of.alternate.empty()) return false;
  if (of.segments.empty()) return of.split == switchable(of.split);
  return std::ranges::all_of(of.segments, [&](const CandidateSegment& segment) {
    const bool whole_layers = segment.end == of.end || between_layers(model, segment.end);
    return whole_layers && segment.split == switchable(segment.split);
  });
}

}  // namespace

NativeEvaluator::NativeEvaluator(const NativeCostModel& cost_model, const PlanSpace& space)
    : Evaluator(cost_model, space),
      tables_(&cost_model.table().tables()),
      calibration_(&cost_model.calibration()),
      node_of_(nodes_of_devices(tables_->cluster)),
      slowness_(slowness_of_devices(tables_->cluster)),
      devices_(node_of_.size()),
      group_(space.sequence.cp),
      sharing_(*tables_, node_of_, space.sequence),
      places_(tables_->cluster),
      catalog_(*tables_),
      flags_(static_cast<std::size_t>(tables_->operators()), 0) {
  std::iota(devices_.begin(), devices_.end(), 0);
}

void NativeEvaluator::forget() {
  stages_.clear();
  transfers_.clear();
  halves_of_.clear();
  proposals_.clear();
}

void NativeEvaluator::set_shape(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                std::int32_t microbatch) {
  shape_.operators = {begin, of.end};
  shape_.alternate = of.alternate;
  shape_.segments.clear();
  const auto add = [&](std::int32_t from, std::int32_t end, const Split& split) {
    shape_.segments.push_back({{from, end},
                               split_shape(tables_->links.routes(), split, microbatch, node_of_,
                                           devices_from(first_device), of.devices * group_, space().sequence)});
  };
  if (of.segments.empty()) return add(begin, of.end, of.split);
  for (const CandidateSegment& segment : of.segments) {
    add(begin, segment.end, segment.split);
    begin = segment.end;
  }
}

// False where a cost is missing.
bool NativeEvaluator::set_half_inputs(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                      std::int32_t half) {
  set_shape(of, begin, first_device, half);
  resolve(*tables_, shape_, catalog_, half_inputs_);
  return half_inputs_.complete &&
         std::ranges::none_of(half_inputs_.prices, [](const OperatorPrice* price) { return price->reduce_missing; });
}

const Calibration& NativeEvaluator::calibration_on(std::int32_t first_device, std::int32_t devices) {
  if (slowness_.empty()) return *calibration_;
  slowed_ = slowed(*calibration_, slowness_, devices_from(first_device), devices * group_);
  return slowed_;
}

double NativeEvaluator::memory_limit_of(std::int32_t first_device, std::int32_t devices) const {
  return memory_limit(tables_->cluster, node_of_, devices_from(first_device), devices * group_);
}

StagePrice NativeEvaluator::price_stage(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                        std::int32_t microbatch, std::int32_t held, const SubBatches& sub_batches) {
  const bool halved = sub_batches.count > 1;
  const Calibration& calibration = calibration_on(first_device, of.devices);
  StagePrice price;
  price.priced = !halved || set_half_inputs(of, begin, first_device, microbatch / 2);
  set_shape(of, begin, first_device, microbatch);
  shape_.in_flight = held;
  resolve(*tables_, shape_, catalog_, inputs_);
  if (halved && sub_batches.recompute_after_communication) keep_inner_outputs(inputs_);
  price.priced = price.priced && inputs_.complete;
  if (!price.priced) return price;
  if (halved) sub_batch_stage_.set_memory(half_inputs_, inputs_);
  price.limit_bytes = memory_limit_of(first_device, of.devices);
  if (of.switches) return may_switch(model(), of) ? price_switched(of, first_device, price) : StagePrice{};
  if (of.recompute) {
    price.recompute_ranges = *of.recompute;
    set_flags(*of.recompute, shape_.operators, flags_);
  } else {
    RecomputeChoice choice = choose_recompute(calibration, inputs_, price.limit_bytes, space().knobs.recompute,
                                              of.further, flags_, &known_patterns_);
    price.recompute_ranges = std::move(choice.recompute);
    price.least_recompute = choice.least_ms;
  }
  if (halved) {
    const SubBatchSchedule schedule{sub_batches.cross_pass, sub_batches.recompute_after_communication};
    put_times(sub_batch_stage_.times(calibration, inputs_, half_inputs_, flags_, schedule), price);
    price.memory_bytes = sub_batch_stage_.bytes(calibration, inputs_, half_inputs_, flags_, schedule).total();
  } else {
    put_times(stage_times(calibration, inputs_, flags_), price);
    price.memory_bytes = stage_bytes(inputs_, flags_).total();
  }
  price.excess_bytes = beyond(price.memory_bytes, price.limit_bytes);
  return price;
}

// Of the stage that shape_ and inputs_ hold.
StagePrice NativeEvaluator::price_switched(const CandidateStage& of, std::int32_t first_device, StagePrice price) {
  price.recompute_ranges = of.recompute.value_or(std::vector<Range>{});
  set_flags(price.recompute_ranges, shape_.operators, flags_);
  const Calibration& calibration = calibration_on(first_device, of.devices);
  const std::int32_t* const devices = devices_.data() + first_device;
  const std::int32_t sharers = devices_sharing_node(node_of_, devices, of.devices);
  const SwitchedStage switched =
      switch_stage_.price({*tables_, calibration, inputs_, shape_, sharers}, *of.switches, flags_);
  price.priced = switched.complete;
  put_times(switched.times, price);
  price.memory_bytes = switched.bytes.total();
  const double host = beyond(switched.host_bytes, host_limit(tables_->cluster, node_of_, devices, of.devices));
  price.excess_bytes = std::max(beyond(price.memory_bytes, price.limit_bytes), host);
  return price;
}

std::optional<CandidateStage> NativeEvaluator::with_best_switches(CandidateStage of, std::int32_t begin,
                                                                  std::int32_t first_device, std::int32_t microbatch,
                                                                  std::int32_t held) {
  of.split = switchable(of.split);
  for (CandidateSegment& segment : of.segments) segment.split = switchable(segment.split);
  if (!may_switch(model(), of) || !allowed_splits(space(), model(), microbatch, of)) return std::nullopt;
  set_shape(of, begin, first_device, microbatch);
  shape_.in_flight = held;
  resolve(*tables_, shape_, catalog_, inputs_);
  if (!inputs_.complete) return std::nullopt;
  const Calibration& calibration = calibration_on(first_device, of.devices);
  const std::int32_t* const devices = devices_.data() + first_device;
  const SwitchDemand demand{model().global_batch / microbatch,
                            memory_limit(tables_->cluster, node_of_, devices, of.devices),
                            host_limit(tables_->cluster, node_of_, devices, of.devices), space().switches};
  const std::uint64_t before = switch_stage_.evaluations();
  const std::int32_t sharers = devices_sharing_node(node_of_, devices, of.devices);
  const auto chosen = switch_stage_.choose({*tables_, calibration, inputs_, shape_, sharers}, demand);
  count(switch_stage_.evaluations() - before);
  if (!chosen) return std::nullopt;
  of.further = 0;
  of.switches = chosen->switches;
  of.recompute = chosen->recompute;
  return of;
}

bool NativeEvaluator::has_switches() const {
  return prices_switches(*tables_, space());
}

std::optional<CandidateStage> NativeEvaluator::with_switches(const Candidate& candidate, std::size_t stage) {
  if (!has_switches()) return std::nullopt;
  return with_best_switches(candidate.stages[stage], candidate.begin_of(stage), candidate.first_device_of(stage),
                            candidate.microbatch, flight_of(candidate, stage));
}

std::int32_t NativeEvaluator::flight_of(const Candidate& candidate, std::size_t stage) const {
  return in_flight(ScheduleKind::k1F1B, static_cast<std::int32_t>(candidate.stages.size()),
                   static_cast<std::int32_t>(stage), model().global_batch / candidate.microbatch);
}

const StagePrice& NativeEvaluator::stage_alone(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                               std::int32_t microbatch, std::int32_t held,
                                               const SubBatches& sub_batches) {
  const std::int32_t place = place_of(first_device, of.devices);
  put_key(of, {begin, place, microbatch, held * kSubBatchings + code_of(sub_batches)}, key_);
  if (stages_.size() >= kRemembered) stages_.clear();
  const auto [at, is_new] = stages_.try_emplace(key_);
  if (is_new) at->second = price_stage(of, begin, first_device, microbatch, held, sub_batches);
  return at->second;
}

const StagePrice& NativeEvaluator::stage_at(const Candidate& candidate, std::size_t stage, std::int32_t first_device) {
  return stage_alone(candidate.stages[stage], candidate.begin_of(stage), first_device, candidate.microbatch,
                     flight_of(candidate, stage), sub_batches_);
}

const StagePrice& NativeEvaluator::stage(const Candidate& candidate, std::size_t stage) {
  const std::int32_t first_device = candidate.first_device_of(stage);
  sub_batches_ = sub_batches_of(candidate);
  answer_ = stage_at(candidate, stage, first_device);
  if (!answer_.priced) return answer_;
  if (stage + 1 < candidate.stages.size()) {
    answer_.communication += transfer(candidate, stage, first_device, candidate.microbatch);
  }
  const double microbatches = model().global_batch / candidate.microbatch;
  const double device = answer_.forward + answer_.backward + answer_.recompute + answer_.communication;
  const double each = std::max(device, answer_.forward_launch + answer_.backward_launch);
  answer_.step_ms = microbatches * each + answer_.sync + answer_.optimizer;
  return answer_;
}

double NativeEvaluator::transfer(const Candidate& candidate, std::size_t stage, std::int32_t first_device,
                                 std::int32_t microbatch) {
  const CandidateStage& sender = candidate.stages[stage];
  const CandidateStage& receiver = candidate.stages[stage + 1];
  const Split& from = sender.segments.empty() ? sender.split : sender.segments.back().split;
  const Split& to = receiver.segments.empty() ? receiver.split : receiver.segments.front().split;
  const std::int32_t place = place_of(first_device, sender.devices + receiver.devices);
  key_.assign({sender.end, microbatch, place, sender.devices, from.dp, from.tp, to.dp, to.tp});
  const auto found = transfers_.find(key_);
  if (found != transfers_.end()) return found->second;
  const TransferSide left{devices_from(first_device), from.dp, from.tp, group_};
  const TransferSide right{devices_from(first_device + sender.devices), to.dp, to.tp, group_};
  const double output = tables_->output[sender.end - 1] / output_shares(space().sequence, to.tp);
  const Value value = transfer_time(*tables_, node_of_, left, right, output, microbatch);
  const double moving = calibration_->moving(CommunicationClass::kTransfers);
  const double ms = value.quality == Quality::kMissing ? kNever : value.mean * moving;
  return transfers_.emplace(key_, ms).first->second;
}

Quality NativeEvaluator::set_ties(const Candidate& candidate) {
  ties_.clear();
  if (tables_->model.tied_parameters.empty()) return Quality::kMeasured;
  tied_stages_.clear();
  std::int32_t device = 0;
  for (const CandidateStage& stage : candidate.stages) {
    const Split& split = stage.segments.empty() ? stage.split : stage.segments.front().split;
    tied_stages_.push_back({stage.end, split.tp, node_of_[device * group_]});
    device += stage.devices;
  }
  return tied_reductions(*tables_, *calibration_, tied_stages_, ties_);
}

bool NativeEvaluator::pipeline_of(const Candidate& candidate, std::vector<PipelineStage>& pipeline,
                                  double& excess_bytes) {
  const std::size_t stages = candidate.stages.size();
  pipeline.resize(stages);
  spreads_.resize(stages);
  excess_bytes = 0;
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const StagePrice& price = stage_at(candidate, s, first_device);
    if (!price.priced) return false;
    pipeline[s] = {price.forward + price.forward_wait,
                   price.backward + price.recompute + price.backward_wait,
                   price.last_backward,
                   price.tail,
                   0,
                   price.after,
                   price.forward_launch,
                   price.backward_launch};
    spreads_[s] = price.spread;
    excess_bytes = std::max(excess_bytes, price.excess_bytes);
    if (s + 1 < stages) pipeline[s].transfer = transfer(candidate, s, first_device, candidate.microbatch);
    first_device += candidate.stages[s].devices;
  }
  add_step_waits(pipeline, spreads_, static_cast<std::int32_t>(stages), model().global_batch / candidate.microbatch,
                 nullptr);
  return true;
}

// Fills the pipeline and the ties; false where a cost is missing.
bool NativeEvaluator::set_pipeline(const Candidate& candidate, Score& score) {
  return pipeline_of(candidate, pipeline_, score.excess_bytes) && set_ties(candidate) != Quality::kMissing;
}

const HalfPass& NativeEvaluator::half_pass(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                           std::int32_t half) {
  put_key(of, {begin, place_of(first_device, of.devices), half, kHalf}, key_);
  const auto found = halves_of_.find(key_);
  if (found != halves_of_.end()) return found->second;
  if (halves_of_.size() >= kRemembered) halves_of_.clear();
  set_shape(of, begin, first_device, half);
  resolve(*tables_, shape_, catalog_, inputs_);
  set_flags({}, shape_.operators, flags_);
  const Calibration& calibration = calibration_on(first_device, of.devices);
  HalfPass pass{kNever};
  if (inputs_.complete) {
    const StageTimes times = stage_times(calibration, inputs_, flags_);
    pass = {times.forward_pass(), 0, times.launches.forward};
  }
  return halves_of_.emplace(key_, pass).first->second;
}

// Fills the halves; false where one of them is not priced.
bool NativeEvaluator::set_halves(const Candidate& candidate) {
  const std::size_t stages = candidate.stages.size();
  halves_.resize(stages);
  const std::int32_t half = candidate.microbatch / 2;
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    halves_[s] = half_pass(candidate.stages[s], candidate.begin_of(s), first_device, half);
    halves_[s].transfer = s + 1 < stages ? transfer(candidate, s, first_device, half) : 0;
    if (std::isinf(halves_[s].forward + halves_[s].transfer)) return false;
    first_device += candidate.stages[s].devices;
  }
  return true;
}

double NativeEvaluator::pipeline_ms(const Candidate& candidate, std::int32_t sliced) {
  const auto stages = static_cast<std::int32_t>(candidate.stages.size());
  const std::int32_t microbatches = model().global_batch / candidate.microbatch;
  const auto run = [&](const std::vector<PipelineStage>& pipeline, const std::vector<HalfPass>& halves) {
    return simulate(pipeline.data(), stages, microbatches, ScheduleKind::k1F1B, scratch_, ties_,
                    {sliced, halves.data()});
  };
  const double ms = run(pipeline_, halves_);
  const double stretch = calibration_->bubble.value - 1;
  if (stretch == 0 || stages < 2) return ms;
  sent_at_once_ = pipeline_;
  halves_sent_at_once_ = halves_;
  send_at_once(sent_at_once_, halves_sent_at_once_);
  const double without = run(sent_at_once_, halves_sent_at_once_);
  return ms + stretch * bubble_ms(busiest_seat(pipeline_, stages, microbatches), without);
}

// How many microbatches are sliced is exact for a partition: every count is simulated.
double NativeEvaluator::best_sliced(const Candidate& candidate, std::int32_t& sliced) {
  const std::int32_t most = sub_batches_.count > 1 ? 0 : most_sliced(candidate, model());
  const bool derived = !candidate.sliced_microbatches;
  sliced = derived ? 0 : std::min(*candidate.sliced_microbatches, most);
  if (sliced > 0) return set_halves(candidate) ? pipeline_ms(candidate, sliced) : kNever;
  double best = pipeline_ms(candidate, 0);
  if (!derived || !space().sliced_microbatches || most == 0 || !set_halves(candidate)) return best;
  for (std::int32_t count = 1; count <= most; ++count) {
    const double ms = pipeline_ms(candidate, count);
    if (ms >= best) continue;
    best = ms;
    sliced = count;
  }
  return best;
}

NativeEvaluator::Step NativeEvaluator::step_with(const Candidate& candidate, const SubBatches& sub_batches) {
  sub_batches_ = sub_batches;
  Step step;
  step.sub_batches = sub_batches;
  step.score.priced = true;
  if (set_pipeline(candidate, step.score)) {
    step.score.ms = best_sliced(candidate, step.sliced) + tables_->step_overhead_ms + calibration_->fixed_ms;
  }
  if (step.score.ms == kNever) step.score = {};
  return step;
}

// The schedule that the candidate spells out, or the best of the space.
NativeEvaluator::Step NativeEvaluator::best_step(const Candidate& candidate) {
  const bool single = candidate.sub_batches || space().sub_batches.size() < 2;
  if (single || !may_sub_batch(candidate)) {
    const bool halved = candidate.sub_batches && may_sub_batch(candidate);
    return step_with(candidate, halved ? *candidate.sub_batches : SubBatches{});
  }
  Step best = step_with(candidate, space().sub_batches.front());
  for (std::size_t i = 1; i < space().sub_batches.size(); ++i) {
    const Step step = step_with(candidate, space().sub_batches[i]);
    if (step.score.better_than(best.score)) best = step;
  }
  latest_ = hash_of(candidate);
  latest_sub_batches_ = best.sub_batches;
  return best;
}

// As price() took it, where that was asked last. Who asks for a stage alone may leave the others open.
SubBatches NativeEvaluator::sub_batches_of(const Candidate& candidate) const {
  if (!may_sub_batch(candidate)) return {};
  if (candidate.sub_batches) return *candidate.sub_batches;
  const bool asked = space().sub_batches.size() > 1 && hash_of(candidate) == latest_;
  return asked ? latest_sub_batches_ : SubBatches{};
}

// Stages share devices, and the step is a graph of its own: no part of it is remembered.
Score NativeEvaluator::price_interleaved(const Candidate& candidate) {
  const Prediction prediction = cost_model().evaluate(plan(candidate));
  Score score;
  if (!prediction.missing_costs.empty()) return score;
  score.priced = true;
  score.ms = prediction.iteration_ms;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const double limit = memory_limit_of(candidate.first_device_of(s), candidate.stages[s].devices);
    const auto bytes = static_cast<double>(prediction.stages[s].memory_bytes);
    score.excess_bytes = std::max(score.excess_bytes, beyond(bytes, limit));
  }
  if (!prediction.feasible) score.excess_bytes = std::max(score.excess_bytes, 1.0);
  return score;
}

Score NativeEvaluator::price(const Candidate& candidate) {
  count();
  if (candidate.seats > 0) return price_interleaved(candidate);
  return best_step(candidate).score;
}

Plan NativeEvaluator::plan(const Candidate& candidate) {
  std::vector<std::vector<Range>> recompute;
  if (candidate.seats > 0) {
    for (const CandidateStage& stage : candidate.stages) recompute.push_back(*stage.recompute);
    return plan_of(candidate, model(), recompute, space().sequence);
  }
  const Step best = best_step(candidate);
  sub_batches_ = best.sub_batches;
  std::int32_t first_device = 0;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    recompute.push_back(stage_at(candidate, s, first_device).recompute_ranges);
    first_device += candidate.stages[s].devices;
  }
  Plan plan = plan_of(candidate, model(), recompute, space().sequence);
  plan.schedule.sub_batches = best.sub_batches.count;
  plan.schedule.cross_pass = best.sub_batches.cross_pass;
  plan.schedule.recompute_after_communication = best.sub_batches.recompute_after_communication;
  plan.schedule.sliced_microbatches = best.sliced;
  return plan;
}

std::string NativeEvaluator::excess_text(const Candidate& candidate) {
  const Plan of = plan(candidate);
  const PricedPlan priced = tuner::price(*tables_, *calibration_, of);
  const std::int32_t stage = worst_memory_stage(priced);
  if (stage < 0) return "";
  return describe_excess(*tables_, *calibration_, of, priced, stage, space().knobs.recompute);
}

// Prefix sums of both passes of a microbatch; empty where a cost is missing.
std::vector<double> NativeEvaluator::passes_sum(std::int32_t microbatch, const Split& split) {
  std::vector<double> sums;
  if (sharing_.any()) {
    const std::vector<OperatorCosts>& least = sharing_.of_groups(microbatch / split.dp, split.tp);
    sums.push_back(0);
    for (const std::int32_t group : tables_->group_of) {
      if (least[group].forward.quality == Quality::kMissing) return {};
      sums.push_back(sums.back() + least[group].forward.mean + least[group].backward.mean);
    }
    return sums;
  }
  const OperatorTable& costs = tables_->at(microbatch / split.dp, split.tp);
  if (costs.gaps.back() != 0) return {};
  for (std::size_t i = 0; i < costs.forward_sum.size(); ++i) {
    sums.push_back(costs.forward_sum[i] + costs.backward_sum[i]);
  }
  return sums;
}

std::span<const double> NativeEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
  key_.assign({microbatch, split.dp, split.tp, static_cast<std::int32_t>(split.sharded), split.sharded_degree});
  const auto found = sums_.find(key_);
  if (found != sums_.end()) return found->second;
  std::vector<double> sums = passes_sum(microbatch, split);
  if (sums.empty()) return {};
  const double microbatches = model().global_batch / microbatch;
  const double shards = split.sharded == ShardedLevel::kNone ? 1
                        : split.sharded_degree > 0           ? split.sharded_degree * group_
                                                             : split.dp * group_;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double optimizer = tables_->optimizer_sum[i] / (split.tp * shards);
    sums[i] = (microbatches * sums[i] + optimizer) * calibration_->computation.value;
  }
  return sums_.emplace(key_, std::move(sums)).first->second;
}

}  // namespace trimtab::tuner
