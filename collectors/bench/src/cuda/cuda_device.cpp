#include "cuda_device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>

#include "base/check.hpp"
#include "cuda_workload.hpp"

namespace trimtab::bench::cuda {

namespace {

constexpr std::uint64_t kGateLimitNs = 5'000'000'000;  // Longer than any queueing; then the run fails, not hangs.

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += digits.data();
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

bool has(const Chain& chain, auto is) {
  return std::any_of(chain.begin(), chain.end(), [&](const Kernel& kernel) { return is(kernel.work); });
}

}  // namespace

Result<std::int32_t> visible_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  return unavailable(std::string("no GPU that CUDA can use: ") +
                     (code == cudaSuccess ? "none is visible" : cudaGetErrorString(code)));
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(std::int32_t index) {
  std::unique_ptr<CudaDevice> device(new CudaDevice());
  TRIMTAB_TRY_STATUS(device->read_facts(index));
  const Bytes before = device->nvml_ ? device->nvml_->used_bytes() : 0;
  TRIMTAB_TRY_STATUS(device->start_libraries());
  const Bytes after = device->nvml_ ? device->nvml_->used_bytes() : 0;
  device->facts_.process_bytes = before > 0 ? std::max<Bytes>(0, after - before) : 0;
  return device;
}

// Before the context: properties and NVML need none.
Status CudaDevice::read_facts(std::int32_t index) {
  TRIMTAB_TRY(facts_.count, visible_gpus());
  if (index < 0 || index >= facts_.count) {
    return bad_input("GPU " + std::to_string(index) + " was asked for, there are " + std::to_string(facts_.count));
  }
  cudaDeviceProp properties{};
  TRIMTAB_TRY_STATUS(checked(cudaGetDeviceProperties(&properties, index), "cannot ask what the GPU is"));
  facts_.index = index;
  facts_.name = properties.name;
  facts_.uuid = uuid_text(properties.uuid);
  facts_.multiprocessors = properties.multiProcessorCount;
  facts_.memory_bytes = static_cast<Bytes>(properties.totalGlobalMem);
  facts_.cache_bytes = properties.l2CacheSize;
  std::array<char, 32> bus{};
  TRIMTAB_TRY_STATUS(checked(cudaDeviceGetPCIBusId(bus.data(), bus.size(), index), "cannot ask where the GPU is"));
  nvml_ = Nvml::open(bus.data());
  facts_.driver = nvml_ ? nvml_->driver_version() : "";
  return {};
}

Status CudaDevice::start_libraries() {
  TRIMTAB_TRY_STATUS(checked(cudaSetDevice(facts_.index), "cannot use the GPU"));
  TRIMTAB_TRY_STATUS(checked(cudaFree(nullptr), "no context on the GPU"));
  int lowest = 0;
  int highest = 0;
  TRIMTAB_TRY_STATUS(checked(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "no stream priorities"));
  const auto stream = [&](cudaStream_t& made, int priority) {
    return checked(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority), "cannot create a stream");
  };
  TRIMTAB_TRY_STATUS(stream(gate_stream_, lowest));
  TRIMTAB_TRY_STATUS(stream(streams_[0], lowest));
  TRIMTAB_TRY_STATUS(stream(streams_[1], highest));
  TRIMTAB_TRY_STATUS(checked(prepare_kernels(), "the GPU has too little shared memory for a collective's kernel"));
  TRIMTAB_TRY(gate_, pinned_memory(sizeof(Gate)));
  auto products = MatrixProducts::open();
  if (products.ok()) {
    products_ = *products;
  } else {
    no_products_ = products.error().message;
  }
  // Loads their code: code is not loaded beside a kernel that spins.
  TRIMTAB_TRY_STATUS(checked(launch_spin(1, gate_stream_), "no launch"));
  new (gate_.get()) Gate{1, 0};
  TRIMTAB_TRY_STATUS(checked(launch_gate(static_cast<Gate*>(gate_.get()), kGateLimitNs, gate_stream_), "no launch"));
  facts_.clocks_known = nvml_ && nvml_->clocks().sm_mhz > 0;
  return checked(cudaStreamSynchronize(gate_stream_), "the first kernel failed");
}

CudaDevice::~CudaDevice() {
  for (const cudaStream_t stream : {gate_stream_, streams_[0], streams_[1]}) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
}

Result<std::unique_ptr<Workload>> CudaDevice::prepare(const Chain& chain) {
  const bool products = has(chain, [](const Work& work) { return std::holds_alternative<Gemm>(work); });
  if (products && !products_) return unavailable("matrix products need cuBLASLt: " + no_products_);
  const bool collectives = has(chain, [](const Work& work) { return std::holds_alternative<Collective>(work); });
  if (collectives && ranks_ == nullptr) return unavailable("collectives need other ranks through NCCL");
  TRIMTAB_TRY(auto workload, CudaWorkload::make(chain, facts_.cache_bytes, products_, ranks_, streams_[0]));
  return std::unique_ptr<Workload>(std::move(workload));
}

// Everything is queued behind the gate, so that the host's pace is not measured.
Status CudaDevice::queue(std::span<const Launch> launches, std::span<const Event> events) {
  TRIMTAB_TRY_STATUS(checked(launch_gate(static_cast<Gate*>(gate_.get()), kGateLimitNs, gate_stream_), "no launch"));
  TRIMTAB_TRY_STATUS(checked(cudaEventRecord(events[0].get(), gate_stream_), "cannot record an event"));
  for (const cudaStream_t stream : streams_) {
    TRIMTAB_TRY_STATUS(checked(cudaStreamWaitEvent(stream, events[0].get(), 0), "cannot order two streams"));
  }
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const cudaStream_t stream = streams_[launches[i].stream];
    auto& workload = static_cast<CudaWorkload&>(*launches[i].workload);
    if (launches[i].delay_ns > 0) {
      const auto delay = static_cast<std::uint64_t>(launches[i].delay_ns);
      TRIMTAB_TRY_STATUS(checked(launch_spin(delay, stream), "cannot delay a stream"));
    }
    TRIMTAB_TRY_STATUS(checked(cudaEventRecord(events[1 + 2 * i].get(), stream), "cannot record an event"));
    for (std::int32_t n = 0; n < launches[i].times; ++n) TRIMTAB_TRY_STATUS(workload.launch(stream));
    TRIMTAB_TRY_STATUS(checked(cudaEventRecord(events[2 + 2 * i].get(), stream), "cannot record an event"));
  }
  return {};
}

Result<std::vector<Span>> CudaDevice::run(std::span<const Launch> launches) {
  std::vector<Event> events(1 + 2 * launches.size());
  for (Event& event : events) {
    TRIMTAB_TRY(event, timing_event());
  }
  auto* const gate = new (gate_.get()) Gate{0, 0};
  const Status queued = queue(launches, events);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  gate->open = 1;
  for (const cudaStream_t stream : {gate_stream_, streams_[0], streams_[1]}) {
    TRIMTAB_TRY_STATUS(checked(cudaStreamSynchronize(stream), "the GPU failed"));
  }
  TRIMTAB_TRY_STATUS(queued);
  if (gate->timed_out != 0) return unavailable("the work could not be queued within 5 s");
  return spans(events, launches.size());
}

Result<std::vector<Span>> CudaDevice::spans(std::span<const Event> events, std::size_t launches) const {
  constexpr double kNsPerMs = 1e6;
  const auto since_start = [&](std::size_t event) -> Result<double> {
    float milliseconds = 0;
    TRIMTAB_TRY_STATUS(
        checked(cudaEventElapsedTime(&milliseconds, events[0].get(), events[event].get()), "cannot read an event"));
    return milliseconds * kNsPerMs;
  };
  std::vector<Span> spans(launches);
  for (std::size_t i = 0; i < launches; ++i) {
    TRIMTAB_TRY(spans[i].begin_ns, since_start(1 + 2 * i));
    TRIMTAB_TRY(spans[i].end_ns, since_start(2 + 2 * i));
  }
  return spans;
}

ClockReading CudaDevice::clocks() {
  return nvml_ ? nvml_->clocks() : ClockReading{};
}

}  // namespace trimtab::bench::cuda
