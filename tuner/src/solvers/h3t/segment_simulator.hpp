#pragma once

// H3T's segment simulator: one training step of consecutive layers on four streams (computation, communication among
// devices, copies to the device, copies to the host), as the authors' published code has it (Wang et al., NeurIPS 2023,
// section 3.2.3 and appendix A). With NVLink the two copy streams wait for each other, so that PCIe is half-duplex;
// without it all three are one stream. Holds the layers and switches that it is given by reference; one per thread.

#include <algorithm>

#include "solvers/h3t/layer_profile.hpp"

namespace trimtab::tuner::h3t {

enum class Fabric : std::uint8_t { kNvlink, kPcie };

enum class Stream : std::uint8_t { kCompute, kCollective, kPrefetch, kOffload };
inline constexpr std::size_t kStreams = 4;

enum class Task : std::uint8_t {
  kForwardNoGrad,
  kForwardWithGrad,
  kBackward,
  kOptimizer,
  kPrefetchHidden,
  kOffloadHidden,
  kPrefetchParameters,
  kGatherParameters,
  kScatterGradients,
  kOffloadGradients,
};

// One task in its place, for pictures.
struct TaskTime {
  Task task = Task::kForwardNoGrad;
  Stream stream = Stream::kCompute;
  std::int32_t layer = 0;
  Ticks begin = 0;
  Ticks end = 0;
};

struct StepOutcome {
  Ticks runtime = 0;
  Bytes peak = 0;  // allocated on the device
  Bytes host = 0;  // on the host, of one rank
  bool operator==(const StepOutcome&) const = default;
};

class SegmentSimulator {
 public:
  // Both must outlive this.
  SegmentSimulator(std::span<const LayerProfile> layers, Fabric fabric) : layers_(layers) {
    events_.resize(layers.size());
    if (fabric == Fabric::kPcie) copy_streams_ = {1, 1};
    nvlink_ = fabric == Fabric::kNvlink;
  }

  // The whole step. REQUIRES: as many switches as layers, each valid.
  StepOutcome step(std::span<const LayerSwitches> switches, std::vector<TaskTime>* tasks = nullptr);
  // Of the last step: its forward pass, and both passes without the optimizer.
  [[nodiscard]] Ticks forward_pass() const { return forward_pass_; }
  [[nodiscard]] Ticks passes() const { return passes_; }

  // Its parts, for segments that are priced alone. The switches must outlive the calls that follow.
  void begin(std::span<const LayerSwitches> switches, Bytes resident);
  void forward_head(std::int32_t i);  // brings the first layer's parameters
  void forward(std::int32_t i);
  void forward_tail(std::int32_t i);
  void backward_head(std::int32_t i);
  void backward(std::int32_t i);
  void backward_tail(std::int32_t i);
  void optimizer();
  void optimizer_step(std::int32_t i);
  void write_back(std::int32_t i);  // of updated parameters that are not prefetched lazily
  void synchronize();

  // What the begun part has come to. Memory is right after synchronize().
  [[nodiscard]] Ticks runtime() const { return latest_; }
  [[nodiscard]] Bytes delta() const { return level_; }
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  struct Events {
    Ticks parameters = 0;
    Ticks hidden = 0;
  };
  [[nodiscard]] bool outside(std::int32_t i) const { return i < 0 || i >= static_cast<std::int32_t>(layers_.size()); }
  [[nodiscard]] std::size_t slot(Stream stream) const {
    const auto index = static_cast<std::size_t>(stream);
    return index < 2 ? index : copy_streams_[index - 2];
  }
  // No clock is behind the last point where all of them joined.
  [[nodiscard]] Ticks at(Stream stream) const { return std::max(clocks_[slot(stream)], floor_); }
  void wait(Stream stream, Ticks until) { clocks_[slot(stream)] = std::max(at(stream), until); }
  void wait(Stream stream, Stream other) { wait(stream, at(other)); }
  void allocate(Stream stream, Bytes bytes) { changes_.emplace_back(at(stream), bytes); }
  void run(Stream stream, Task task, std::int32_t layer, Ticks ticks);
  void prefetch_parameters(std::int32_t i);
  void gather(std::int32_t i);
  void build(std::int32_t i);
  void scatter(std::int32_t i);
  void offload_gradients(std::int32_t i);
  void prefetch_hidden(std::int32_t i);
  void offload_hidden(std::int32_t i);
  void compute(std::int32_t i, Task task, Ticks ticks, const MemoryChange& change);
  void backward_compute(std::int32_t i);

  std::span<const LayerProfile> layers_;
  std::span<const LayerSwitches> switches_;
  bool nvlink_ = true;
  std::array<std::size_t, 2> copy_streams_{2, 3};
  std::array<Ticks, kStreams> clocks_{};
  std::vector<Events> events_;
  Ticks floor_ = 0;
  Ticks latest_ = 0;
  Ticks forward_pass_ = 0;
  Ticks passes_ = 0;
  bool backwards_ = false;
  Bytes resident_ = 0;
  Bytes level_ = 0;
  Bytes peak_ = 0;
  std::vector<std::pair<Ticks, Bytes>> changes_;
  std::vector<TaskTime>* tasks_ = nullptr;
};

// Of a microbatch between its passes: what a layer keeps on the device, and on the host.
[[nodiscard]] inline Bytes retained_bytes(const LayerProfile& layer, const LayerSwitches& switches) {
  return (switches.offload_hidden ? 0 : layer.input) + (switches.rematerialize ? 0 : layer.with_grad.delta);
}
[[nodiscard]] inline Bytes offloaded_bytes(const LayerProfile& layer, const LayerSwitches& switches) {
  return switches.offload_hidden ? layer.input : 0;
}

// Bytes that one rank keeps on its host under these switches.
[[nodiscard]] Bytes host_bytes(std::span<const LayerProfile> layers, std::span<const LayerSwitches> switches);

}  // namespace trimtab::tuner::h3t
