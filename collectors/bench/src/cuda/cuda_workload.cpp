#include "cuda_workload.hpp"

#include <utility>

#include "base/check.hpp"
#include "gpu_kernels.hpp"

namespace trimtab::bench::cuda {

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

}  // namespace trimtab::bench::cuda
