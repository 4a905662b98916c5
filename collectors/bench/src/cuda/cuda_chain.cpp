#include <unistd.h>

#include <chrono>
#include <fstream>

#include "cuda_device.hpp"

namespace trimtab::bench::cuda {

namespace {

constexpr std::size_t kCopyBytes = 4096;
constexpr std::int32_t kWarmUpSteps = 5;

using Time = std::chrono::steady_clock::time_point;

double nanoseconds(Time begin, Time end) {
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

Bytes resident_bytes() {
  std::ifstream file("/proc/self/statm");
  Bytes pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

Bytes device_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return 0;
  return static_cast<Bytes>(total_bytes - free_bytes);
}

class ChainRun {
 public:
  explicit ChainRun(const ChainRequest& request) : request_(request) {}
  ~ChainRun() {
    if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  ChainRun(const ChainRun&) = delete;
  ChainRun& operator=(const ChainRun&) = delete;

  Result<ChainTimes> run() {
    TRIMTAB_TRY_STATUS(start());
    for (std::int32_t i = 0; i < kWarmUpSteps; ++i) TRIMTAB_TRY_STATUS(step(false));
    for (std::int32_t i = 0; i < request_.steps; ++i) TRIMTAB_TRY_STATUS(step(true));
    times_.resident_bytes = resident_bytes();
    times_.device_bytes = device_bytes();
    return times_;
  }

 private:
  Status start() {
    TRIMTAB_TRY_STATUS(checked(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot create a stream"));
    TRIMTAB_TRY(device_, device_memory(kCopyBytes));
    TRIMTAB_TRY(host_, pinned_memory(kCopyBytes));
    TRIMTAB_TRY(begin_, timing_event());
    TRIMTAB_TRY(end_, timing_event());
    const Time begin = std::chrono::steady_clock::now();
    TRIMTAB_TRY_STATUS(checked(launch_spin(1000, stream_), "the first launch failed"));
    TRIMTAB_TRY_STATUS(checked(cudaStreamSynchronize(stream_), "the first kernel failed"));
    times_.first_launch_ns = nanoseconds(begin, std::chrono::steady_clock::now());
    ++times_.kernels;
    return request_.graph ? capture() : Status();
  }

  Status launch_all() {
    TRIMTAB_TRY_STATUS(checked(cudaMemcpyAsync(device_.get(), host_.get(), kCopyBytes, cudaMemcpyHostToDevice, stream_),
                               "cannot copy"));
    TRIMTAB_TRY_STATUS(checked(cudaMemsetAsync(device_.get(), 0, kCopyBytes, stream_), "cannot fill"));
    for (std::int32_t i = 0; i < request_.kernels; ++i) {
      TRIMTAB_TRY_STATUS(
          checked(launch_spin(static_cast<std::uint64_t>(request_.kernel_ns), stream_), "cannot launch"));
    }
    return {};
  }

  Status capture() {
    TRIMTAB_TRY_STATUS(checked(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cannot capture"));
    const Status launched = launch_all();
    cudaGraph_t graph = nullptr;
    const Status captured = checked(cudaStreamEndCapture(stream_, &graph), "cannot capture");
    TRIMTAB_TRY_STATUS(launched);
    TRIMTAB_TRY_STATUS(captured);
    const Status made = checked(cudaGraphInstantiate(&replay_, graph, 0), "cannot make a graph");
    cudaGraphDestroy(graph);
    return made;
  }

  Status launch_step() {
    times_.kernels += static_cast<std::uint64_t>(request_.kernels);
    ++times_.copies;
    ++times_.fills;
    if (!request_.graph) return launch_all();
    ++times_.graph_launches;
    return checked(cudaGraphLaunch(replay_, stream_), "cannot replay a graph");
  }

  Status step(bool counts) {
    const Time begin = std::chrono::steady_clock::now();
    TRIMTAB_TRY_STATUS(checked(cudaEventRecord(begin_.get(), stream_), "cannot record an event"));
    TRIMTAB_TRY_STATUS(launch_step());
    const Time launched = std::chrono::steady_clock::now();
    TRIMTAB_TRY_STATUS(checked(cudaEventRecord(end_.get(), stream_), "cannot record an event"));
    TRIMTAB_TRY_STATUS(checked(cudaStreamSynchronize(stream_), "the GPU failed"));
    const Time end = std::chrono::steady_clock::now();
    float milliseconds = 0;
    TRIMTAB_TRY_STATUS(checked(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cannot read an event"));
    if (!counts) return {};
    const double launches = request_.graph ? 1 : request_.kernels + 2;
    times_.step_ns.push_back(nanoseconds(begin, end));
    times_.host_ns_per_launch.push_back(nanoseconds(begin, launched) / launches);
    times_.gpu_ns_per_kernel.push_back(1e6 * static_cast<double>(milliseconds) / request_.kernels);
    return {};
  }

  ChainRequest request_;
  ChainTimes times_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;
  DeviceMemory device_;
  HostMemory host_;
  Event begin_;
  Event end_;
};

}  // namespace

Result<ChainTimes> run_chain(const ChainRequest& request, std::int32_t gpu) {
  TRIMTAB_TRY_STATUS(checked(cudaSetDevice(gpu), "cannot use the GPU"));
  return ChainRun(request).run();
}

}  // namespace trimtab::bench::cuda
