#include "cuda_device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <utility>

#include "base/check.hpp"

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

template <typename Kind>
bool has(const Chain& chain) {
  return std::any_of(chain.begin(), chain.end(),
                     [](const Kernel& kernel) { return std::holds_alternative<Kind>(kernel.work); });
}

// A chain on a GPU: its buffers, filled, and its launches.
class CudaWorkload final : public Workload {
 public:
  // `products` and `ranks` may be null where the chain needs none. Launches the chain once and waits for it: what is
  // loaded or connected at a first launch must not be at a measured one.
  [[nodiscard]] static Result<std::unique_ptr<CudaWorkload>> make(const Chain& chain, Bytes cache_bytes,
                                                                  std::shared_ptr<MatrixProducts> products,
                                                                  NcclRanks* ranks, cudaStream_t stream);
  // The whole chain, on the next set of buffers.
  [[nodiscard]] Status launch(cudaStream_t stream);

 private:
  struct Step {
    Kernel kernel;
    std::vector<Buffer> buffers;
    std::vector<std::vector<void*>> sets;  // by set, then by buffer
    MatrixProducts::Launcher product;
    void* host = nullptr;
  };

  CudaWorkload(std::shared_ptr<MatrixProducts> products, NcclRanks* ranks)
      : products_(std::move(products)), ranks_(ranks) {}
  [[nodiscard]] Status add(const Kernel& kernel, cudaStream_t stream);
  [[nodiscard]] Result<void*> filled(const Buffer& buffer, Dtype dtype, cudaStream_t stream);
  [[nodiscard]] Status launch_step(const Step& step, cudaStream_t stream);
  [[nodiscard]] Status launch_product(const Step& step, const std::vector<void*>& set, cudaStream_t stream);

  std::shared_ptr<MatrixProducts> products_;
  NcclRanks* ranks_;
  std::vector<Step> steps_;
  std::vector<DeviceMemory> memory_;
  std::vector<HostMemory> pinned_;
  DeviceMemory workspace_;
  std::int32_t sets_ = 1;
  std::int32_t next_set_ = 0;
  std::uint64_t seed_ = 1;
};

Result<std::unique_ptr<CudaWorkload>> CudaWorkload::make(const Chain& chain, Bytes cache_bytes,
                                                         std::shared_ptr<MatrixProducts> products, NcclRanks* ranks,
                                                         cudaStream_t stream) {
  std::unique_ptr<CudaWorkload> workload(new CudaWorkload(std::move(products), ranks));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  TRIMTAB_TRY_STATUS(checked(cudaMemGetInfo(&free_bytes, &total_bytes), "cannot ask for free memory"));
  workload->sets_ = rotation_sets(touched_bytes(chain), cache_bytes, static_cast<Bytes>(free_bytes));
  for (const Kernel& kernel : chain) TRIMTAB_TRY_STATUS(workload->add(kernel, stream));
  TRIMTAB_TRY_STATUS(workload->launch(stream));
  TRIMTAB_TRY_STATUS(checked(cudaStreamSynchronize(stream), "the first launch failed"));
  return workload;
}

Status CudaWorkload::add(const Kernel& kernel, cudaStream_t stream) {
  Step step{kernel, buffers_of(kernel), {}, {}, nullptr};
  step.sets.resize(static_cast<std::size_t>(sets_));
  for (std::size_t set = 0; set < step.sets.size(); ++set) {
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const bool once = step.buffers[i].shared && set > 0;
      TRIMTAB_TRY(void* const memory,
                  once ? Result<void*>(step.sets.front()[i]) : filled(step.buffers[i], kernel.dtype, stream));
      step.sets[set].push_back(memory);
    }
  }
  if (const auto* gemm = std::get_if<Gemm>(&kernel.work)) {
    TRIMTAB_TRY(step.product, products_->prepare(*gemm, kernel.dtype));
    if (workspace_ == nullptr) {
      TRIMTAB_TRY(workspace_, device_memory(MatrixProducts::kWorkspaceBytes));
    }
  } else if (const auto* copy = std::get_if<HostCopy>(&kernel.work)) {
    TRIMTAB_TRY(HostMemory host, pinned_memory(static_cast<std::size_t>(copy->bytes)));
    step.host = host.get();
    pinned_.push_back(std::move(host));
  } else if (const auto* collective = std::get_if<Collective>(&kernel.work)) {
    TRIMTAB_TRY_STATUS(ranks_->join(collective->group_size));
  }
  steps_.push_back(std::move(step));
  return {};
}

Result<void*> CudaWorkload::filled(const Buffer& buffer, Dtype dtype, cudaStream_t stream) {
  TRIMTAB_TRY(DeviceMemory memory, device_memory(static_cast<std::size_t>(buffer.bytes)));
  void* const address = memory.get();
  memory_.push_back(std::move(memory));
  ++seed_;
  if (buffer.fill == Fill::kNumbers) {
    const std::int64_t elements = buffer.bytes / element_bytes(dtype);
    TRIMTAB_TRY_STATUS(checked(launch_fill(address, elements, dtype, seed_, stream), "cannot fill a buffer"));
  } else if (buffer.fill == Fill::kIndices) {
    auto* const indices = static_cast<std::int32_t*>(address);
    TRIMTAB_TRY_STATUS(checked(launch_fill_indices(indices, buffer.bytes / 4, buffer.index_limit, seed_, stream),
                               "cannot fill a buffer"));
  }
  return address;
}

Status CudaWorkload::launch(cudaStream_t stream) {
  for (const Step& step : steps_) TRIMTAB_TRY_STATUS(launch_step(step, stream));
  next_set_ = (next_set_ + 1) % sets_;
  return {};
}

Status CudaWorkload::launch_product(const Step& step, const std::vector<void*>& set, cudaStream_t stream) {
  const auto status = step.product(set[0], set[1], set[2], workspace_.get(), stream);
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return unavailable(describe(step.kernel) + ": cuBLASLt says " + std::to_string(static_cast<int>(status)));
}

Status CudaWorkload::launch_step(const Step& step, cudaStream_t stream) {
  const std::vector<void*>& set = step.sets[static_cast<std::size_t>(next_set_)];
  const Dtype dtype = step.kernel.dtype;
  const auto checked_launch = [&](cudaError_t code) { return checked(code, describe(step.kernel)); };
  if (std::holds_alternative<Gemm>(step.kernel.work)) return launch_product(step, set, stream);
  if (const auto* rows = std::get_if<RowKernel>(&step.kernel.work)) {
    return checked_launch(launch_row(*rows, dtype, set[0], rows->backward ? set[1] : nullptr, set.back(), stream));
  }
  if (const auto* pass = std::get_if<Elementwise>(&step.kernel.work)) {
    TRIMTAB_ASSERT(pass->reads >= 1 && pass->reads <= 4 && pass->writes <= 3, "more tensors than the kernel takes");
    return checked_launch(launch_elementwise(pass->elements * element_bytes(dtype), set.data(), pass->reads,
                                             set.data() + pass->reads, pass->writes, stream));
  }
  if (const auto* lookup = std::get_if<Lookup>(&step.kernel.work)) {
    return checked_launch(
        launch_lookup(*lookup, dtype, static_cast<const std::int32_t*>(set[0]), set[1], set[2], stream));
  }
  if (const auto* copy = std::get_if<HostCopy>(&step.kernel.work)) {
    const bool in = copy->direction == CopyDirection::kHostToDevice;
    return checked_launch(cudaMemcpyAsync(in ? set[0] : step.host, in ? step.host : set[0],
                                          static_cast<std::size_t>(copy->bytes),
                                          in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
  }
  if (const auto* channel = std::get_if<ChannelKernel>(&step.kernel.work)) {
    const bool moves = channel->pace != Pace::kSpin;
    return checked_launch(launch_channel(*channel, moves ? set[0] : nullptr, moves ? set[1] : nullptr, stream));
  }
  if (const auto* collective = std::get_if<Collective>(&step.kernel.work)) {
    return ranks_->launch(*collective, set[0], set[1], stream);
  }
  return checked_launch(launch_spin(static_cast<std::uint64_t>(std::get<Spin>(step.kernel.work).nanoseconds), stream));
}

constexpr int kNvmlSuccess = 0;
constexpr unsigned kSmClock = 1;

template <typename Value, typename Function, typename... Arguments>
Value read(Function* function, Arguments... arguments) {
  Value value = 0;
  if (function == nullptr || function(arguments..., &value) != kNvmlSuccess) return 0;
  return value;
}

}  // namespace

std::optional<Nvml> Nvml::open(const std::string& pci_bus_id) {
  auto library = DynamicLibrary::open({"libnvidia-ml.so.1"});
  if (!library.ok()) return std::nullopt;
  Nvml nvml(*library);
  const auto& own = nvml.library_;
  Result (*start)() = nullptr;
  Result (*find)(const char*, Handle**) = nullptr;
  if (!own.find(start, "nvmlInit_v2") || !own.find(find, "nvmlDeviceGetHandleByPciBusId_v2")) return std::nullopt;
  if (start() != kNvmlSuccess || find(pci_bus_id.c_str(), &nvml.device_) != kNvmlSuccess) return std::nullopt;
  own.find(nvml.clock_, "nvmlDeviceGetClockInfo");
  own.find(nvml.power_, "nvmlDeviceGetPowerUsage");
  own.find(nvml.throttle_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  own.find(nvml.memory_, "nvmlDeviceGetMemoryInfo");
  own.find(nvml.driver_, "nvmlSystemGetDriverVersion");
  return nvml;
}

ClockReading Nvml::clocks() const {
  ClockReading reading;
  reading.sm_mhz = read<unsigned>(clock_, device_, kSmClock);
  reading.power_milliwatts = read<unsigned>(power_, device_);
  reading.throttle_reasons = read<unsigned long long>(throttle_, device_);
  return reading;
}

Bytes Nvml::used_bytes() const {
  Memory memory{};
  if (memory_ == nullptr || memory_(device_, &memory) != kNvmlSuccess) return 0;
  return static_cast<Bytes>(memory.used);
}

std::string Nvml::driver_version() const {
  std::array<char, 80> text{};
  if (driver_ == nullptr || driver_(text.data(), static_cast<unsigned>(text.size())) != kNvmlSuccess) return "";
  return text.data();
}

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
  if (has<Gemm>(chain) && !products_) return unavailable("matrix products need cuBLASLt: " + no_products_);
  if (has<Collective>(chain) && ranks_ == nullptr) return unavailable("collectives need other ranks through NCCL");
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
