#include "solvers/h3t/segment_simulator.hpp"

#include "base/check.hpp"

namespace trimtab::tuner::h3t {

void SegmentSimulator::begin(std::span<const LayerSwitches> switches, Bytes resident) {
  TRIMTAB_ASSERT(switches.size() == layers_.size(), "a layer has its switches");
  switches_ = switches;
  clocks_.fill(0);
  std::ranges::fill(events_, Events{});
  floor_ = latest_ = 0;
  backwards_ = false;
  resident_ = peak_ = resident;
  level_ = 0;
  changes_.clear();
}

StepOutcome SegmentSimulator::step(std::span<const LayerSwitches> switches, std::vector<TaskTime>* tasks) {
  Bytes resident = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!switches[i].lazy_prefetch) resident += layers_[i].partitioned_parameters;
  }
  begin(switches, resident);
  tasks_ = tasks;
  const auto last = static_cast<std::int32_t>(layers_.size()) - 1;
  synchronize();
  forward_head(0);
  for (std::int32_t i = 0; i <= last; ++i) forward(i);
  forward_tail(last);
  synchronize();
  forward_pass_ = latest_;
  backward_head(last);
  for (std::int32_t i = last; i >= 0; --i) backward(i);
  backward_tail(0);
  synchronize();
  passes_ = latest_;
  optimizer();
  tasks_ = nullptr;
  return {latest_, peak_, host_bytes(layers_, switches)};
}

void SegmentSimulator::run(Stream stream, Task task, std::int32_t layer, Ticks ticks) {
  const Ticks begin = at(stream);
  clocks_[slot(stream)] = begin + ticks;
  latest_ = std::max(latest_, begin + ticks);
  if (tasks_ != nullptr) tasks_->push_back({task, stream, layer, begin, begin + ticks});
}

void SegmentSimulator::synchronize() {
  floor_ = latest_;
  std::ranges::sort(changes_);
  for (const auto& [time, bytes] : changes_) {
    level_ += bytes;
    peak_ = std::max(peak_, resident_ + level_);
  }
  changes_.clear();
}

void SegmentSimulator::prefetch_parameters(std::int32_t i) {
  if (outside(i) || !switches_[i].lazy_prefetch) return;
  if (!switches_[i].partition_parameters && backwards_) return;
  wait(Stream::kPrefetch, Stream::kOffload);
  allocate(Stream::kPrefetch, layers_[i].partitioned_parameters);
  run(Stream::kPrefetch, Task::kPrefetchParameters, i, layers_[i].prefetch_parameters);
  events_[i].parameters = std::max(events_[i].parameters, at(Stream::kPrefetch));
}

void SegmentSimulator::gather(std::int32_t i) {
  if (outside(i) || (!switches_[i].partition_parameters && backwards_)) return;
  wait(Stream::kCollective, events_[i].parameters);
  // What autograd holds of a layer that keeps its intermediates is gathered into.
  const bool held = backwards_ && switches_[i].partition_parameters && !switches_[i].rematerialize;
  if (!held) allocate(Stream::kCollective, layers_[i].gathered_parameters);
  run(Stream::kCollective, Task::kGatherParameters, i, layers_[i].gather_parameters);
  events_[i].parameters = std::max(events_[i].parameters, at(Stream::kCollective));
}

void SegmentSimulator::build(std::int32_t i) {
  wait(Stream::kCompute, events_[i].parameters);
  if (backwards_) allocate(Stream::kCompute, layers_[i].gathered_gradients);
}

void SegmentSimulator::scatter(std::int32_t i) {
  if (outside(i)) return;
  if (backwards_) {
    wait(Stream::kCollective, Stream::kCompute);
    allocate(Stream::kCollective, layers_[i].partitioned_gradients);
    run(Stream::kCollective, Task::kScatterGradients, i, layers_[i].scatter_gradients);
    events_[i].parameters = std::max(events_[i].parameters, at(Stream::kCollective));
    allocate(Stream::kCollective, -layers_[i].gathered_gradients);
  }
  const bool released = switches_[i].partition_parameters && switches_[i].rematerialize;
  if (backwards_ || released) allocate(Stream::kCollective, -layers_[i].gathered_parameters);
}

void SegmentSimulator::offload_gradients(std::int32_t i) {
  if (outside(i)) return;
  if (backwards_) {
    wait(Stream::kOffload, Stream::kPrefetch);
    wait(Stream::kOffload, events_[i].parameters);
    run(Stream::kOffload, Task::kOffloadGradients, i, layers_[i].offload_gradients);
    allocate(Stream::kOffload, -layers_[i].partitioned_gradients);
    events_[i].parameters = std::max(events_[i].parameters, at(Stream::kOffload));
  }
  if ((backwards_ || switches_[i].partition_parameters) && switches_[i].lazy_prefetch) {
    allocate(Stream::kOffload, -layers_[i].partitioned_parameters);
  }
}

void SegmentSimulator::prefetch_hidden(std::int32_t i) {
  if (outside(i) || !switches_[i].offload_hidden) return;
  wait(Stream::kPrefetch, Stream::kOffload);
  allocate(Stream::kPrefetch, layers_[i].input);
  run(Stream::kPrefetch, Task::kPrefetchHidden, i, layers_[i].prefetch_hidden);
  events_[i].hidden = std::max(events_[i].hidden, at(Stream::kPrefetch));
  wait(Stream::kOffload, Stream::kPrefetch);
}

void SegmentSimulator::offload_hidden(std::int32_t i) {
  if (!switches_[i].offload_hidden) {
    allocate(Stream::kOffload, layers_[i].input);
    return;
  }
  wait(Stream::kOffload, Stream::kPrefetch);
  run(Stream::kOffload, Task::kOffloadHidden, i, layers_[i].offload_hidden);
  events_[i].hidden = std::max(events_[i].hidden, at(Stream::kOffload));
  wait(Stream::kPrefetch, Stream::kOffload);
}

void SegmentSimulator::compute(std::int32_t i, Task task, Ticks ticks, const MemoryChange& change) {
  floor_ = std::max(floor_, at(Stream::kCompute));
  allocate(Stream::kCompute, change.peak);
  run(Stream::kCompute, task, i, ticks);
  allocate(Stream::kCompute, change.delta - change.peak);
}

void SegmentSimulator::forward_head(std::int32_t i) {
  backwards_ = false;
  prefetch_parameters(i);
  gather(i);
}

void SegmentSimulator::forward(std::int32_t i) {
  backwards_ = false;
  const LayerSwitches& switches = switches_[i];
  if (switches.segment_sync) synchronize();
  forward_tail(i - 1);
  wait(Stream::kPrefetch, Stream::kCompute);
  wait(Stream::kCollective, Stream::kCompute);
  if (!switches.economical_forward) forward_head(i + 1);
  offload_hidden(i);
  if (switches.economical_forward) forward_head(i + 1);
  build(i);
  const LayerProfile& layer = layers_[i];
  if (switches.rematerialize) {
    compute(i, Task::kForwardNoGrad, layer.forward_no_grad, layer.no_grad);
  } else {
    compute(i, Task::kForwardWithGrad, layer.forward_with_grad, layer.with_grad);
  }
}

void SegmentSimulator::forward_tail(std::int32_t i) {
  backwards_ = false;
  scatter(i);
  offload_gradients(i);
}

void SegmentSimulator::backward_head(std::int32_t i) {
  backwards_ = true;
  prefetch_parameters(i);
  gather(i);
  prefetch_hidden(i);
}

void SegmentSimulator::backward_compute(std::int32_t i) {
  build(i);
  wait(Stream::kCompute, events_[i].hidden);
  const LayerProfile& layer = layers_[i];
  if (switches_[i].rematerialize) compute(i, Task::kForwardWithGrad, layer.forward_with_grad, layer.with_grad);
  compute(i, Task::kBackward, layer.backward, layer.backward_change);
}

// What is queued after the last computation still starts with it: its stream was only advanced to that begin.
void SegmentSimulator::backward(std::int32_t i) {
  backwards_ = true;
  const bool economical = switches_[i].economical_backward;
  if (switches_[i].segment_sync) synchronize();
  wait(Stream::kPrefetch, Stream::kCompute);
  scatter(i + 1);
  if (nvlink_) {
    prefetch_parameters(i - 1);
    if (!economical) {
      prefetch_hidden(i - 1);
      gather(i - 1);
      offload_gradients(i + 1);
    }
    backward_compute(i);
    if (!economical) return;
    gather(i - 1);
    offload_gradients(i + 1);
    prefetch_hidden(i - 1);
    return;
  }
  offload_gradients(i + 1);
  if (economical) backward_compute(i);
  prefetch_hidden(i - 1);
  prefetch_parameters(i - 1);
  gather(i - 1);
  if (!economical) backward_compute(i);
}

void SegmentSimulator::backward_tail(std::int32_t i) {
  backwards_ = true;
  scatter(i);
  offload_gradients(i);
}

void SegmentSimulator::optimizer_step(std::int32_t i) {
  run(Stream::kCompute, Task::kOptimizer, i, layers_[i].optimizer_step);
}

void SegmentSimulator::write_back(std::int32_t i) {
  if (switches_[i].lazy_prefetch) return;
  wait(Stream::kPrefetch, Stream::kCompute);
  run(Stream::kPrefetch, Task::kPrefetchParameters, i, layers_[i].prefetch_parameters);
}

void SegmentSimulator::optimizer() {
  backwards_ = false;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(layers_.size()); ++i) {
    optimizer_step(i);
    write_back(i);
  }
}

Bytes host_bytes(std::span<const LayerProfile> layers, std::span<const LayerSwitches> switches) {
  Bytes bytes = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bytes += layers[i].host_bytes + offloaded_bytes(layers[i], switches[i]);
  }
  return bytes;
}

}  // namespace trimtab::tuner::h3t
