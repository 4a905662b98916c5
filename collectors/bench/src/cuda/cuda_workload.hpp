#pragma once

// A chain on a GPU: its buffers, filled, and its launches.

#include <cstdint>
#include <memory>
#include <vector>

#include "buffers.hpp"
#include "cuda_call.hpp"
#include "device.hpp"
#include "matrix_products.hpp"
#include "nccl.hpp"

namespace trimtab::bench::cuda {

class CudaWorkload final : public Workload {
 public:
  // `products` and `ranks` may be null where the chain needs none. Launches the chain once and waits for it: what is
  // loaded or connected at a first launch must not be at a measured one.
  [[nodiscard]] static Result<std::unique_ptr<CudaWorkload>> make(const Chain& chain, Bytes cache_bytes,
                                                                  std::shared_ptr<MatrixProducts> products,
                                                                  NcclRanks* ranks, cudaStream_t stream);
  // The whole chain, on the next set of buffers.
  [[nodiscard]] Status launch(cudaStream_t stream);
  [[nodiscard]] std::int32_t kernels() const { return static_cast<std::int32_t>(steps_.size()); }

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

}  // namespace trimtab::bench::cuda
