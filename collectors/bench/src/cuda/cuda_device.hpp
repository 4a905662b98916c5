#pragma once

// The Device that is a GPU. Thin: what to measure, how often and what it means is decided elsewhere.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda_call.hpp"
#include "device.hpp"
#include "gpu_kernels.hpp"
#include "kernel_chain.hpp"
#include "matrix_products.hpp"
#include "nccl.hpp"

namespace trimtab::bench::cuda {

// Clocks, power and memory of one GPU, from the driver's management library. Its few functions are declared here: no
// header and no link-time dependency. What the driver does not answer reads as 0.
class Nvml {
 public:
  // Nothing where the library or this GPU is not to be had.
  [[nodiscard]] static std::optional<Nvml> open(const std::string& pci_bus_id);

  [[nodiscard]] ClockReading clocks() const;
  [[nodiscard]] Bytes used_bytes() const;
  [[nodiscard]] std::string driver_version() const;

 private:
  struct Handle;  // nvmlDevice_t's target
  struct Memory {
    unsigned long long total, free, used;
  };
  using Result = int;

  explicit Nvml(DynamicLibrary library) : library_(library) {}

  DynamicLibrary library_;
  Handle* device_ = nullptr;
  Result (*clock_)(Handle*, unsigned kind, unsigned* mhz) = nullptr;
  Result (*power_)(Handle*, unsigned* milliwatts) = nullptr;
  Result (*throttle_)(Handle*, unsigned long long* reasons) = nullptr;
  Result (*memory_)(Handle*, Memory*) = nullptr;
  Result (*driver_)(char* version, unsigned length) = nullptr;
};

// GPUs that this process sees; the error says why there are none.
[[nodiscard]] Result<std::int32_t> visible_gpus();

class CudaDevice final : public Device {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CudaDevice>> open(std::int32_t index);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Whom collectives go through; without one they cannot be prepared. Outlives this.
  void connect(NcclRanks* ranks) { ranks_ = ranks; }

  [[nodiscard]] const DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] Result<std::unique_ptr<Workload>> prepare(const Chain& chain) override;
  [[nodiscard]] Result<std::vector<Span>> run(std::span<const Launch> launches) override;
  [[nodiscard]] ClockReading clocks() override;

 private:
  CudaDevice() = default;
  [[nodiscard]] Status read_facts(std::int32_t index);
  [[nodiscard]] Status start_libraries();
  [[nodiscard]] Status queue(std::span<const Launch> launches, std::span<const Event> events);
  [[nodiscard]] Result<std::vector<Span>> spans(std::span<const Event> events, std::size_t launches) const;

  DeviceFacts facts_;
  std::optional<Nvml> nvml_;
  std::shared_ptr<MatrixProducts> products_;
  std::string no_products_;  // why there are none
  NcclRanks* ranks_ = nullptr;
  cudaStream_t gate_stream_ = nullptr;
  cudaStream_t streams_[2] = {nullptr, nullptr};  // by Launch::stream
  HostMemory gate_;
};

// Runs a kernel chain on the GPU.
[[nodiscard]] Result<ChainTimes> run_chain(const ChainRequest& request, std::int32_t gpu);

}  // namespace trimtab::bench::cuda
