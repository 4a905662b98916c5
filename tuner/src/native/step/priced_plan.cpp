#include "native/step/priced_plan.hpp"

#include "native/stage/recompute_choice.hpp"
#include "plan/plan_rules.hpp"
#include "solvers/step_graph.hpp"

namespace trimtab::tuner {
namespace {

// `microbatch` is the plan's or half of that.
StageShape shape_of(const Routes& routes, const Plan& plan, std::size_t s, std::int32_t microbatch,
                    const std::vector<std::int32_t>& node_of) {
  const Stage& stage = plan.stages[s];
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  const auto devices = static_cast<std::int32_t>(stage.devices.size());
  StageShape shape;
  shape.operators = stage.operators();
  shape.in_flight = in_flight(plan.schedule.kind, stages, static_cast<std::int32_t>(s), plan.microbatches());
  shape.prefetches = !target_says(plan, kParameterPrefetch, "false");
  // Pipelines whose gradients go in buckets (Megatron-LM's) divide the first stage's alone: the others have time.
  if (const std::int64_t bytes = bucket_bytes_of(plan); bytes > 0) {
    shape.bucket_bytes = s == 0 ? static_cast<double>(bytes) : std::numeric_limits<double>::infinity();
    shape.gathers_ahead = target_says(plan, kGatherAhead, "true");
  }
  shape.whole_gradients = target_says(plan, kGradientAccumulation, "\"whole\"");
  const bool parallel = target_says(plan, kSequenceParallel, "true");
  for (const Segment& segment : stage.segments) {
    const Split split{segment.dp, segment.tp, segment.sharded, segment.sharded_degree};
    shape.segments.push_back({segment.operators, split_shape(routes, split, microbatch, node_of, stage.devices.data(),
                                                             devices, {segment.cp, parallel})});
    shape.alternate.insert(shape.alternate.end(), segment.alternate_dimension.begin(),
                           segment.alternate_dimension.end());
  }
  return shape;
}

class Pricing {
 public:
  Pricing(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan)
      : tables_(tables), calibration_(calibration), plan_(plan), node_of_(nodes_of_devices(tables.cluster)) {}

  PricedPlan run() {
    priced_.tables = &tables_;
    priced_.slowness = slowness_of_devices(tables_.cluster);
    priced_.catalog = std::make_unique<SplitCatalog>(tables_);
    priced_.microbatches = plan_.microbatches();
    priced_.kind = plan_.schedule.kind;
    priced_.seats = seats_of(plan_);
    // Where they cannot, the plan is named as not priced.
    const bool plain = priced_.kind != ScheduleKind::kInterleaved && plan_.schedule.sliced_microbatches == 0 &&
                       forwards_of(plan_) <= kMostGraphForwards;
    priced_.transfers_meet = plain && target_says(plan_, kTransfersMeet, "true");
    priced_.recompute.assign(static_cast<std::size_t>(tables_.operators()), 0);
    if (plan_.schedule.sub_batches == 2) {
      priced_.sub_batches = {plan_.schedule.cross_pass, plan_.schedule.recompute_after_communication};
    }
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) add_stage(s);
    if (priced_.kind == ScheduleKind::kInterleaved) share_seats();
    for (const StageBytes& bytes : priced_.bytes) priced_.device_bytes.push_back(bytes.total());
    if (priced_.kind == ScheduleKind::kInterleaved) add_up_seats();
    for (std::size_t s = 0; s + 1 < plan_.stages.size(); ++s) add_transfer(s);
    if (plan_.schedule.sliced_microbatches > 0) add_halves();
    wait_for_stragglers();
    add_ties();
    name_process_cost(tables_, priced_.names);
    for (std::string& name : unpriced_features(plan_)) priced_.names.miss_time(std::move(name));
    return std::move(priced_);
  }

 private:
  void add_stage(std::size_t s) {
    const Stage& stage = plan_.stages[s];
    priced_.stages.push_back(&stage);
    priced_.shapes.push_back(shape_of(tables_.links.routes(), plan_, s, plan_.microbatch, node_of_));
    priced_.inputs.emplace_back();
    resolve(tables_, priced_.shapes.back(), *priced_.catalog, priced_.inputs.back());
    for (const Segment& segment : stage.segments) set_flags(segment.recompute, segment.operators, priced_.recompute);
    if (priced_.sub_batches) {
      add_half_inputs(s);
      name_sub_batch_costs(tables_, priced_.half_shapes.back(), priced_.names);
      if (priced_.sub_batches->recompute_after_communication) keep_inner_outputs(priced_.inputs.back());
    }
    const auto devices = static_cast<std::int32_t>(stage.devices.size());
    priced_.switched.push_back(switches_of(stage));
    priced_.sharers.push_back(devices_sharing_node(node_of_, stage.devices.data(), devices));
    priced_.host_limits.push_back(host_limit(tables_.cluster, node_of_, stage.devices.data(), devices));
    if (priced_.switched.back()) {
      add_switched(s);
    } else {
      priced_.times.push_back(priced_.times_under(calibration_, s));
      priced_.bytes.push_back(bytes_of(s));
      priced_.host_bytes.push_back(0);
    }
    priced_.limits.push_back(
        memory_limit(tables_.cluster, node_of_, stage.devices.data(), static_cast<std::int32_t>(stage.devices.size())));
    priced_.pipeline.push_back(pipeline_stage(priced_.times.back()));
    name_stage_costs(tables_, priced_.shapes.back(), priced_.names);
    const Launches& messages = priced_.inputs.back().messages;
    if (messages.both() + messages.update <= 0) return;
    priced_.names.estimated.insert(
        "what a host takes to issue a send, a receive or a collective: half of the shortest "
        "launch of a pass or an update that was measured");
  }

  // How many microbatches each stage holds when its seat holds most.
  void share_seats() {
    const auto stages = static_cast<std::int32_t>(plan_.stages.size());
    std::vector<double> each;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      each.push_back(priced_.bytes[s].activations / priced_.shapes[s].in_flight);
    }
    for (std::int32_t seat = 0; seat < priced_.seats; ++seat) {
      const std::vector<std::int32_t> held =
          held_at_once(seat_passes(priced_.kind, stages, priced_.seats, seat, priced_.microbatches), each);
      for (std::int32_t s = seat; s < stages; s += priced_.seats) {
        priced_.shapes[s].in_flight = priced_.inputs[s].in_flight = held[s];
        priced_.bytes[s].activations = each[s] * held[s];
      }
    }
  }

  // A seat's devices hold all of its stages; one process, and one stage at work.
  void add_up_seats() {
    const std::size_t stages = plan_.stages.size();
    for (std::size_t s = 0; s < stages; ++s) {
      StageBytes all;
      for (std::size_t t = s % priced_.seats; t < stages; t += priced_.seats) {
        const StageBytes& of = priced_.bytes[t];
        all.states += of.states;
        all.activations += of.activations;
        all.recompute_peak = std::max(all.recompute_peak, of.recompute_peak);
        all.working = std::max(all.working, of.working);
        all.process = of.process;
        all.gradient_buffer = std::max(all.gradient_buffer, of.gradient_buffer);
        all.gathered = std::max(all.gathered, of.gathered);
      }
      priced_.device_bytes[s] = all.total();
    }
  }

  StageBytes bytes_of(std::size_t s) {
    StageInputs& inputs = priced_.inputs[s];
    if (!priced_.sub_batches) return stage_bytes(inputs, priced_.recompute);
    SubBatchStage stage;
    stage.set_memory(priced_.half_inputs[s], inputs);
    return stage.bytes(calibration_, inputs, priced_.half_inputs[s], priced_.recompute, *priced_.sub_batches);
  }

  void add_switched(std::size_t s) {
    std::vector<SwitchCost> unmeasured;
    const SwitchedStage priced = priced_.switched_stage(calibration_, s, &unmeasured);
    priced_.times.push_back(priced.times);
    priced_.bytes.push_back(priced.bytes);
    priced_.host_bytes.push_back(priced.host_bytes);
    for (const SwitchCost& cost : unmeasured) name_cost(cost.quality, cost.key, cost.benchmark, priced_.names);
  }

  void add_half_inputs(std::size_t s) {
    priced_.half_shapes.push_back(shape_of(tables_.links.routes(), plan_, s, plan_.microbatch / 2, node_of_));
    priced_.half_inputs.emplace_back();
    resolve(tables_, priced_.half_shapes.back(), *priced_.catalog, priced_.half_inputs.back());
    name_stage_costs(tables_, priced_.half_shapes.back(), priced_.names);
  }

  void add_halves() {
    const std::size_t stages = plan_.stages.size();
    priced_.sliced_microbatches = plan_.schedule.sliced_microbatches;
    for (std::size_t s = 0; s < stages; ++s) {
      add_half_inputs(s);
      const StageTimes times =
          stage_times(priced_.on_devices(calibration_, s), priced_.half_inputs[s], priced_.recompute);
      const double transfer = s + 1 < stages ? transfer_value(s, plan_.microbatch / 2).mean : 0;
      priced_.halves.push_back({times.forward_pass(), transfer, times.launches.forward});
    }
  }

  // To the next stage, calibrated.
  Value transfer_value(std::size_t s, std::int32_t microbatch) {
    const Segment& last = plan_.stages[s].segments.back();
    const Segment& first = plan_.stages[s + 1].segments.front();
    const TransferSide from{plan_.stages[s].devices.data(), last.dp, last.tp, last.cp};
    const TransferSide to{plan_.stages[s + 1].devices.data(), first.dp, first.tp, first.cp};
    const double output =
        tables_.output[first.operators.begin - 1] / priced_.shapes[s + 1].segments.front().split.output_shares();
    Value value = transfer_time(tables_, node_of_, from, to, output, microbatch);
    if (value.quality != Quality::kMeasured) {
      name_transfer_costs(tables_, node_of_, from, to, output, microbatch, priced_.names);
    }
    value.mean *= calibration_.moving(CommunicationClass::kTransfers);
    value.error *= calibration_.moving(CommunicationClass::kTransfers);
    return value;
  }

  void add_transfer(std::size_t s) {
    priced_.transfers.push_back(transfer_value(s, plan_.microbatch));
    priced_.pipeline[s].transfer = priced_.transfers.back().mean;
  }

  void wait_for_stragglers() {
    std::vector<ReplicaSpread> spreads;
    for (const StageTimes& times : priced_.times) spreads.push_back(times.spread);
    priced_.straggler_waits.assign(spreads.size(), 0);
    add_step_waits(priced_.pipeline, spreads, priced_.seats, priced_.microbatches, priced_.straggler_waits.data());
  }

  void add_ties() {
    if (tables_.passes_only) return;
    std::vector<TiedStage> stages;
    for (const Stage& stage : plan_.stages) {
      stages.push_back({stage.operators().end, stage.segments.front().tp, node_of_[stage.devices.front()]});
    }
    const Quality worst = tied_reductions(tables_, calibration_, stages, priced_.ties);
    if (worst != Quality::kMeasured) name_tied_costs(tables_, stages, priced_.names);
  }

  const CostTable::Tables& tables_;
  const Calibration& calibration_;
  const Plan& plan_;
  std::vector<std::int32_t> node_of_;
  PricedPlan priced_;
};

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<Bytes>(std::llround(std::ceil(bytes))));
}

std::string operators_text(const Model& model, const Range& range) {
  const std::string& first = model.operators[range.begin].name;
  if (range.size() == 1) return "operator " + std::to_string(range.begin) + " " + first;
  return "operators " + std::to_string(range.begin) + " to " + std::to_string(range.end - 1) + ", " + first + " to " +
         model.operators[range.end - 1].name;
}

std::string ranges_text(const std::vector<Range>& ranges) {
  std::string text;
  for (const Range& range : ranges) {
    if (!text.empty()) text += ", ";
    text += "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
  }
  return text;
}

std::string remedy(const Calibration& calibration, const PricedPlan& priced, std::size_t s, bool may_recompute) {
  if (priced.kind == ScheduleKind::kInterleaved) {
    return "recompute more, or give these devices fewer stages or smaller microbatches";
  }
  if (priced.switched[s]) return "turn on more memory switches, or give the stage fewer operators";
  RecomputeFlags flags(priced.recompute.size(), 0);
  const RecomputeChoice choice =
      choose_recompute(calibration, priced.inputs[s], priced.limits[s], may_recompute, 0, flags);
  if (choice.fits) return "smallest change that fits: recompute operators " + ranges_text(choice.recompute);
  const std::string more = bytes_text(choice.excess_bytes) + " more memory on the device";
  const char* const how = may_recompute ? "even with the best recompute it needs " : "it needs ";
  return how + more + ", fewer operators in this stage, more replicas or a smaller microbatch";
}

// What the devices hold for other stages too.
std::string others_text(const PricedPlan& priced, std::size_t s) {
  if (priced.kind != ScheduleKind::kInterleaved) return "";
  return ", with its devices' other stages " + bytes_text(priced.device_bytes[s]);
}

// A rounding error is not an excess: bytes are whole.
double beyond(double bytes, double limit) {
  const double excess = limit > 0 ? bytes - limit : 0;
  return excess < 0.5 ? 0 : excess;
}

}  // namespace

void set_memory(const StageBytes& bytes, StagePrediction& stage) {
  stage.memory.states = whole(bytes.states);
  stage.memory.activations = whole(bytes.activations);
  stage.memory.recompute_peak = whole(bytes.recompute_peak);
  stage.memory.working = whole(bytes.working);
  stage.memory.reserved = whole(bytes.working + bytes.process + bytes.gradient_buffer + bytes.gathered);
  stage.memory_bytes = whole(bytes.total());
}

Calibration PricedPlan::on_devices(const Calibration& calibration, std::size_t stage) const {
  const std::vector<std::int32_t>& devices = stages[stage]->devices;
  return slowed(calibration, slowness, devices.data(), static_cast<std::int32_t>(devices.size()));
}

SwitchedStage PricedPlan::switched_stage(const Calibration& calibration, std::size_t stage,
                                         std::vector<SwitchCost>* unmeasured) const {
  const Calibration here = on_devices(calibration, stage);
  return SwitchStage().price({*tables, here, inputs[stage], shapes[stage], sharers[stage]}, *switched[stage], recompute,
                             unmeasured);
}

StageTimes PricedPlan::times_under(const Calibration& calibration, std::size_t stage,
                                   const OverlapScale& overlap) const {
  if (switched[stage]) return switched_stage(calibration, stage).times;
  const Calibration here = on_devices(calibration, stage);
  if (!sub_batches) return stage_times(here, inputs[stage], recompute, overlap);
  return SubBatchStage().times(here, inputs[stage], half_inputs[stage], recompute, *sub_batches, overlap);
}

PipelineStage pipeline_stage(const StageTimes& times) {
  return {times.forward_pass(),
          times.backward_pass(),
          times.last_backward,
          times.tail(),
          0,
          times.optimizer + times.gather_after,
          times.launches.forward,
          times.launches.backward};
}

double memory_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                    std::int32_t count) {
  Bytes smallest = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const Bytes bytes = cluster.nodes[node_of[devices[i]]].memory_bytes;
    if (bytes > 0 && (smallest == 0 || bytes < smallest)) smallest = bytes;
  }
  return static_cast<double>(smallest);
}

PricedPlan price(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan) {
  return Pricing(tables, calibration, plan).run();
}

double excess_bytes(const PricedPlan& priced, std::size_t stage) {
  const double device = beyond(priced.device_bytes[stage], priced.limits[stage]);
  return std::max(device, beyond(priced.host_bytes[stage], priced.host_limits[stage]));
}

std::int32_t worst_memory_stage(const PricedPlan& priced) {
  std::int32_t worst = -1;
  double most = 0;
  for (std::size_t s = 0; s < priced.shapes.size(); ++s) {
    const double excess = excess_bytes(priced, s);
    if (excess <= most) continue;
    most = excess;
    worst = static_cast<std::int32_t>(s);
  }
  return worst;
}

std::string describe_excess(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan,
                            const PricedPlan& priced, std::int32_t stage, bool may_recompute) {
  const auto s = static_cast<std::size_t>(stage);
  const StageBytes& bytes = priced.bytes[s];
  const double on_host = beyond(priced.host_bytes[s], priced.host_limits[s]);
  if (on_host > beyond(priced.device_bytes[s], priced.limits[s])) {
    return "stage " + std::to_string(stage) + " (" + operators_text(tables.model, priced.shapes[s].operators) +
           "): host memory: a rank needs " + bytes_text(priced.host_bytes[s]) + " for what memory switches offload, " +
           "its share of the node has " + bytes_text(priced.host_limits[s]) + ": " + bytes_text(on_host) +
           " too much; offload less, or give the stage more replicas";
  }
  return "stage " + std::to_string(stage) + " (" + operators_text(tables.model, priced.shapes[s].operators) +
         "; device " + std::to_string(plan.stages[s].devices.front()) + "): memory: needs " +
         bytes_text(bytes.total()) + " (states " + bytes_text(bytes.states) + ", activations " +
         bytes_text(bytes.activations) + " of " + std::to_string(priced.shapes[s].in_flight) +
         " microbatches, recompute peak " + bytes_text(bytes.recompute_peak) + ", reserved " +
         bytes_text(bytes.working + bytes.process + bytes.gradient_buffer + bytes.gathered) + ")" +
         others_text(priced, s) + ", the device has " + bytes_text(priced.limits[s]) + ": " +
         bytes_text(excess_bytes(priced, s)) + " too much; " + remedy(calibration, priced, s, may_recompute);
}

}  // namespace trimtab::tuner
