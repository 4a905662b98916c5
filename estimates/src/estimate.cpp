#include "estimates/estimate.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "collectives.hpp"
#include "estimates/constants.hpp"
#include "framework.hpp"
#include "layer_time.hpp"
#include "stage_layers.hpp"

namespace trimtab::estimates {

namespace {

// A stage's forward and backward pass of one microbatch. The host launches while the device computes: the slower one
// counts.
struct StageTime {
  double computed = 0, recomputed = 0, launches = 0, tensor = 0, context = 0, parameters = 0;
  double backward = 0;  // of the sum: what gradients' reduction can hide behind
  [[nodiscard]] double sum() const { return computed + recomputed + launches + tensor + context + parameters; }
};

class StepEstimate {
 public:
  StepEstimate(const Machine& machine, const ModelShape& shape, const UniformPlan& plan, const Constants& constants)
      : machine_(machine),
        shape_(shape),
        plan_(plan),
        constants_(constants),
        traits_(traits_of(plan)),
        layers_(machine, shape, plan, constants),
        collectives_(machine, constants, plan.switch_sums),
        layer_(layers_.layer()),
        head_(layers_.head()),
        embedding_(layers_.embedding()) {}

  [[nodiscard]] StepParts parts() const;

 private:
  [[nodiscard]] double host_of_layer() const;
  [[nodiscard]] StageTime stage(std::int32_t number) const;
  void shard(StageTime& time, double layers) const;
  [[nodiscard]] double device_parameters(std::int32_t stage) const { return stage_parameters(shape_, plan_, stage); }
  [[nodiscard]] double exposed(double communication, double beside, bool overlaps) const;
  [[nodiscard]] double exposed_of_chunks(double communication, double pass, bool overlaps) const;
  [[nodiscard]] double transfers(double microbatches) const;
  void reduce(StepParts& parts, const StageTime& slowest, double count) const;
  void update(StepParts& parts, double count) const;
  [[nodiscard]] Group replicas(double over) const;
  // Devices that share a copy of what is sharded.
  [[nodiscard]] double sharers() const {
    return plan_.sharded_over > 0 ? plan_.sharded_over : plan_.replicas * plan_.context;
  }
  // Of a parameter that is gathered.
  [[nodiscard]] double gathered_bytes() const {
    return plan_.precision == Precision::kFloat8 && traits_.norms_cast ? 1 : 2;
  }
  [[nodiscard]] double moved(double bytes) const {
    return bytes / (machine_.gpu.memory_bandwidth * constants_.memory_share);
  }

  const Machine& machine_;
  const ModelShape& shape_;
  const UniformPlan& plan_;
  const Constants& constants_;
  FrameworkTraits traits_;
  LayerTimes layers_;
  Collectives collectives_;
  LayerTime layer_, head_, embedding_;
};

double StepEstimate::host_of_layer() const {
  switch (traits_.host) {
    case HostWork::kEager:
      return constants_.eager_layer_s;
    case HostWork::kFused:
      return constants_.fused_layer_s;
    case HostWork::kCompiled:
      return constants_.compiled_layer_s;
  }
  return constants_.eager_layer_s;
}

Group StepEstimate::replicas(double over) const {
  return collectives_.group(over, plan_.tensor);  // context-parallel ranks lie between the replicas
}

StageTime StepEstimate::stage(std::int32_t number) const {
  const double layers = stage_layers(shape_, plan_, number);
  PassTime forward, backward, again;
  const auto add = [&](const LayerTime& time, double times) {
    forward += time.forward * times;
    backward += time.backward * times;
    again += time.recomputed * times;
  };
  add(layer_, layers);
  if (number == 0) add(embedding_, 1);
  if (number + 1 == plan_.stages) add(head_, 1);
  StageTime time;
  time.computed = forward.computed + backward.computed;
  if (plan_.microbatches() > 1) {
    time.computed += moved(device_parameters(number) * traits_.accumulated_bytes);
  }
  time.recomputed = again.computed;
  time.tensor = forward.tensor + backward.tensor + again.tensor;
  time.context = forward.context + backward.context + again.context;
  time.backward = backward.sum() + again.sum();
  if (plan_.sharded == Sharded::kParameters) shard(time, layers);
  const bool all_again = plan_.recomputed == Recomputed::kLayer || plan_.recomputed == Recomputed::kHalfOfProducts;
  const double passes = 2 + (all_again ? plan_.recomputed_share : 0);
  const double calls = plan_.tensor > 1 ? (plan_.sequence_parallel ? 5.0 : 2.0) : 0;  // of collectives in a pass
  const double launches = (host_of_layer() + calls * constants_.host_collective_s) * layers * passes;
  time.launches = std::max(0.0, launches - time.sum());
  return time;
}

// FSDP: each layer's parameters are gathered before its passes, and its gradients are scattered behind its backward
// pass. The next layer's are gathered meanwhile, so a layer takes what the slower of both takes.
void StepEstimate::shard(StageTime& time, double layers) const {
  const double over = sharers();
  if (over <= 1) return;
  const Group group = replicas(over);
  const double count = static_cast<double>(layer_parameters(shape_)) / plan_.tensor;
  const double gather = collectives_.all_gather(group, count * gathered_bytes()) * layers;
  double scatter = collectives_.all_gather(group, count * plan_.gradient_bytes) * layers;
  const double copies = plan_.replicas * plan_.context / over;
  if (copies > 1) {
    const Group across = collectives_.group(copies, over * plan_.tensor);
    scatter += collectives_.all_reduce(across, count * plan_.gradient_bytes / over) * layers;
  }
  const double forward = time.sum() - time.backward;
  const double backward_communication = (plan_.reshard ? gather : 0) + scatter;
  time.parameters = exposed(gather, forward, plan_.overlaps_parameters) +
                    exposed(backward_communication, time.backward, plan_.overlaps_gradients);
}

// What computation does not hide, and what it loses by hiding the rest.
double StepEstimate::exposed(double communication, double beside, bool overlaps) const {
  if (!overlaps) return communication;
  const double hidden = std::min(communication, beside * constants_.hidden_share);
  return communication - hidden + hidden * constants_.overlap_loss;
}

// Of what is reduced behind the last backward pass, or gathered before the first forward pass. Interleaved stages run a
// chunk for as many microbatches as there are stages, and then the next one: all chunks but one have the others' passes
// beside them (get_model_chunk_id in megatron/core/pipeline_parallel/schedules.py).
double StepEstimate::exposed_of_chunks(double communication, double pass, bool overlaps) const {
  const double one = 1.0 / plan_.chunks;
  return exposed(communication * one, pass * one, overlaps) +
         exposed(communication * (1 - one), pass * (1 - one) * plan_.stages, overlaps);
}

// A microbatch's way over the borders of stages. The steady part waits twice for each microbatch where nothing hides
// it.
double StepEstimate::transfers(double microbatches) const {
  if (plan_.stages <= 1) return 0;
  const double shared = plan_.sequence_parallel ? plan_.tensor : 1;
  const double bytes =
      static_cast<double>(plan_.microbatch) * shape_.sequence / plan_.context * shape_.hidden * 2 / shared;
  const double stride = static_cast<double>(plan_.tensor) * plan_.context * plan_.replicas;
  const double one = collectives_.transfer(stride, bytes);
  const double filling = 2.0 * (plan_.stages - 1) * one;
  const double steady = 2.0 * microbatches * plan_.chunks * one;
  return filling + steady * (plan_.overlaps_transfers ? 1 - constants_.hidden_share : 1);
}

void StepEstimate::reduce(StepParts& parts, const StageTime& slowest, double count) const {
  const double replicas_and_context = plan_.replicas * plan_.context;
  if (replicas_and_context <= 1 || plan_.sharded == Sharded::kParameters) return;
  const Group group = replicas(replicas_and_context);
  const double bucket = std::max(traits_.bucket, traits_.bucket_of_replica * replicas_and_context);
  const double buckets = bucket > 0 && plan_.overlaps_gradients ? std::ceil(count / bucket) : 1;
  const double gradients = count * plan_.gradient_bytes / buckets;
  const bool sums = plan_.sharded == Sharded::kNothing || !traits_.scatters_gradients;
  const double reduction =
      buckets * (sums ? collectives_.all_reduce(group, gradients) : collectives_.all_gather(group, gradients));
  const double microbatches = plan_.microbatches();
  if (plan_.sharded == Sharded::kGradients && microbatches > 1) {
    parts.gradients += (microbatches - 1) * exposed(reduction, slowest.backward, plan_.overlaps_gradients);
  }
  parts.gradients += exposed_of_chunks(reduction, slowest.backward, plan_.overlaps_gradients);
  if (plan_.sharded == Sharded::kNothing) return;
  const double gather = collectives_.all_gather(group, count * gathered_bytes());
  parts.parameters += exposed_of_chunks(gather, slowest.sum() - slowest.backward, plan_.overlaps_parameters);
}

void StepEstimate::update(StepParts& parts, double count) const {
  const double share = plan_.sharded != Sharded::kNothing ? sharers() : 1;
  const double read_and_written = count / share * (plan_.gradient_bytes * 2 + plan_.optimizer_bytes * 2 + 2);
  parts.optimizer = moved(read_and_written) + constants_.step_overhead_s;
  if (plan_.offloaded_optimizer) {
    parts.optimizer += count / share * (plan_.gradient_bytes + 2) / (machine_.gpu.pcie_bandwidth * 0.7);
  }
}

StepParts StepEstimate::parts() const {
  StageTime slowest;
  std::int32_t at = 0;
  double all = 0;
  for (std::int32_t number = 0; number < plan_.stages; ++number) {
    const StageTime time = stage(number);
    all += time.sum();
    if (number == 0 || time.sum() > slowest.sum()) {
      slowest = time;
      at = number;
    }
  }
  const double microbatches = plan_.microbatches();
  StepParts parts;
  parts.computation = slowest.computed * microbatches;
  parts.recomputation = slowest.recomputed * microbatches;
  parts.launches = slowest.launches * microbatches;
  parts.tensor = slowest.tensor * microbatches;
  parts.context = slowest.context * microbatches;
  parts.parameters = slowest.parameters * microbatches;
  parts.bubble = (all - slowest.sum()) / plan_.chunks;
  parts.transfers = transfers(microbatches);
  reduce(parts, slowest, device_parameters(at));
  update(parts, device_parameters(at));
  const double straggling = constants_.straggling * std::log2(std::max(1, machine_.nodes()));
  parts.bubble += straggling * parts.sum();
  return parts;
}

}  // namespace

Estimate estimate(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                  const Constants& constants) {
  Estimate estimate;
  estimate.parts = StepEstimate(machine, shape, plan, constants).parts();
  estimate.step_s = estimate.parts.sum();
  const double spread = std::exp(1.645 * constants.spread);
  estimate.least_s = estimate.step_s / spread;
  estimate.most_s = estimate.step_s * spread;
  estimate.memory = estimate_memory(machine, shape, plan, constants);
  const double tokens = static_cast<double>(plan.global_batch) * shape.sequence;
  estimate.tokens_per_s_per_device = tokens / estimate.step_s / plan.devices();
  const double peak = peak_flops(machine.gpu, plan.precision);
  estimate.utilization = sample_flops(shape, false) * plan.global_batch / estimate.step_s / plan.devices() / peak;
  return estimate;
}

Estimate estimate(const Machine& machine, const ModelShape& shape, const UniformPlan& plan) {
  return estimate(machine, shape, plan, Constants{});
}

}  // namespace trimtab::estimates
