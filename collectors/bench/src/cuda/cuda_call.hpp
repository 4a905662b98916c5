#pragma once

// Errors of the CUDA runtime as Results, and its objects as owners.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "base/result.hpp"

namespace trimtab::bench::cuda {

[[nodiscard]] inline Status checked(cudaError_t code, const std::string& action) {
  if (code == cudaSuccess) return {};
  return unavailable(action + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")");
}

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
struct FreeHost {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
struct DestroyEvent {
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
using HostMemory = std::unique_ptr<void, FreeHost>;
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

// One byte at least: a null pointer means failure.
[[nodiscard]] inline Result<DeviceMemory> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  TRIMTAB_TRY_STATUS(
      checked(cudaMalloc(&memory, bytes < 16 ? 16 : bytes), "the GPU gave no " + std::to_string(bytes >> 20) + " MiB"));
  return DeviceMemory(memory);
}

[[nodiscard]] inline Result<HostMemory> pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  TRIMTAB_TRY_STATUS(checked(cudaHostAlloc(&memory, bytes < 16 ? 16 : bytes, cudaHostAllocDefault),
                             "no " + std::to_string(bytes >> 20) + " MiB of pinned host memory"));
  return HostMemory(memory);
}

[[nodiscard]] inline Result<Event> timing_event() {
  cudaEvent_t event = nullptr;
  TRIMTAB_TRY_STATUS(checked(cudaEventCreate(&event), "cannot create an event"));
  return Event(event);
}

}  // namespace trimtab::bench::cuda
