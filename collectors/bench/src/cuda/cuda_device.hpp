#pragma once

// The Device that is a GPU. Thin: what to measure, how often and what it means is decided elsewhere.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda_call.hpp"
#include "device.hpp"
#include "gpu_kernels.hpp"
#include "matrix_products.hpp"
#include "nccl.hpp"
#include "nvml.hpp"

namespace trimtab::bench::cuda {

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

}  // namespace trimtab::bench::cuda
