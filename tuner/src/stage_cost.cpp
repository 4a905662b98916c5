#include "stage_cost.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

// Computation beside one serial communication channel. `backlog` is communication that is ready and not done; it runs
// beside the computation, each slowed by the other, until one of them ends: the overlap rule of the cost model.
class OverlappedPass {
 public:
  explicit OverlappedPass(const OverlapSlowdown& slowdown) : slowdown_(slowdown) {}

  void compute(double length) {
    const double beside = length * slowdown_.computation;       // if communication lasts that long
    const double drained = backlog_ * slowdown_.communication;  // if computation lasts that long
    if (beside <= drained) {
      time_ += beside;
      backlog_ -= beside / slowdown_.communication;
    } else {
      time_ += drained + (length - drained / slowdown_.computation);
      backlog_ = 0;
    }
  }
  void communicate(double length) { backlog_ += length; }

  [[nodiscard]] double computation_end() const { return time_; }
  [[nodiscard]] double communication_end() const { return time_ + backlog_; }

 private:
  OverlapSlowdown slowdown_;
  double time_ = 0;
  double backlog_ = 0;
};

// Each operator's all-reduce starts when its backward is done, beside the backward of the operators before it.
void add_synchronization(const CostTable::Tables& tables, const Calibration& calibration, const StageShape& shape,
                         const SampleTable& costs, const RecomputeFlags& recompute, StageTimes& times) {
  const SyncTable& sync = *tables.find_sync(shape.dp, shape.placement);
  OverlappedPass pass(sync.overlap);
  for (std::int32_t i = shape.operators.end - 1; i >= shape.operators.begin; --i) {
    const double again = recompute[i] != 0 ? costs.forward[i] : 0;
    pass.compute((costs.backward[i] + again) * calibration.computation.value);
    pass.communicate(sync.all_reduce[i].mean * calibration.communication.value);
  }
  times.last_backward = pass.computation_end();
  times.sync_end = pass.communication_end();
}

}  // namespace

StageTimes stage_times(const CostTable::Tables& tables, const Calibration& calibration, const StageShape& shape,
                       const RecomputeFlags& recompute) {
  const SampleTable& costs = *tables.find(shape.samples);
  const auto [begin, end] = shape.operators;
  const double factor = calibration.computation.value;
  double again = 0;
  for (std::int32_t i = begin; i < end; ++i) again += recompute[i] != 0 ? costs.forward[i] : 0;
  StageTimes times;
  times.forward = (costs.forward_sum[end] - costs.forward_sum[begin]) * factor;
  times.backward = (costs.backward_sum[end] - costs.backward_sum[begin]) * factor;
  times.recompute = again * factor;
  times.optimizer = (tables.optimizer_sum[end] - tables.optimizer_sum[begin]) * factor;
  times.last_backward = times.backward_pass();
  if (shape.dp > 1) add_synchronization(tables, calibration, shape, costs, recompute, times);
  return times;
}

double input_bytes(const CostTable::Tables& tables, const StageShape& shape) {
  return shape.operators.begin > 0 ? tables.output[shape.operators.begin - 1] * shape.samples : 0;
}

// The stage's last output is sent, and kept until its gradient has come back.
double kept_output_bytes(const CostTable::Tables& tables, const StageShape& shape, std::int32_t i) {
  return i + 1 < tables.operators() ? tables.output[i] * shape.samples : 0;
}

// An operator's stored bytes include its output, which is the next one's input. A recomputed operator keeps that alone.
StageBytes stage_bytes(const CostTable::Tables& tables, const Calibration& calibration, const StageShape& shape,
                       const RecomputeFlags& recompute) {
  const SampleTable& costs = *tables.find(shape.samples);
  const auto [begin, end] = shape.operators;
  double kept = input_bytes(tables, shape);
  StageBytes bytes;
  double gradient_max = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    if (recompute[i] != 0) {
      kept += kept_output_bytes(tables, shape, i);
      bytes.recompute_peak = std::max(bytes.recompute_peak, costs.stored[i]);
    } else {
      kept += costs.stored[i];
    }
    bytes.working = std::max(bytes.working, costs.working[i]);
    gradient_max = std::max(gradient_max, tables.gradient[i]);
  }
  const double factor = calibration.memory.value;
  bytes.states = (tables.parameter_sum[end] - tables.parameter_sum[begin]) * tables.state_factor;
  bytes.activations = kept * shape.in_flight * factor;
  bytes.recompute_peak *= factor;
  bytes.working *= factor;
  bytes.process = tables.process_bytes.mean;
  bytes.gradient_buffer = shape.dp > 1 ? gradient_max : 0;
  return bytes;
}

// Replica i holds samples [i * each, (i + 1) * each): walk the pairs whose ranges overlap.
Value transfer_time(const CostTable::Tables& tables, const std::vector<std::int32_t>& from,
                    const std::vector<std::int32_t>& to, double bytes_per_sample, std::int32_t microbatch) {
  const std::int32_t sent_each = microbatch / static_cast<std::int32_t>(from.size());
  const std::int32_t received_each = microbatch / static_cast<std::int32_t>(to.size());
  Value slowest{0, 0, Quality::kMeasured};
  Value sending;
  Value receiving;
  const auto add = [&slowest](Value& sum, const Value& cost) {
    sum.mean += cost.mean;
    sum.error += cost.error;
    if (sum.mean > slowest.mean) slowest = {sum.mean, sum.error, slowest.quality};
  };
  for (std::int32_t sample = 0; sample < microbatch;) {
    const std::int32_t i = sample / sent_each;
    const std::int32_t j = sample / received_each;
    if (sample % sent_each == 0) sending = {};
    if (sample % received_each == 0) receiving = {};
    const std::int32_t end = std::min((i + 1) * sent_each, (j + 1) * received_each);
    const auto bytes = static_cast<std::int64_t>(bytes_per_sample * (end - sample));
    const Value cost =
        tables.links.point_to_point(bytes, tables.cluster.node_of(from[i]), tables.cluster.node_of(to[j]));
    slowest.quality = std::max(slowest.quality, cost.quality);
    add(sending, cost);
    add(receiving, cost);
    sample = end;
  }
  return slowest;
}

}  // namespace trimtab::tuner
