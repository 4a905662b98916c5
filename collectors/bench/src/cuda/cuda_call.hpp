#pragma once

// Errors of the CUDA runtime as Results, its objects as owners, and libraries that the machine may or may not have.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <initializer_list>
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

// Opened when it is needed and never closed.
class DynamicLibrary {
 public:
  // The first of `names` that opens.
  [[nodiscard]] static Result<DynamicLibrary> open(std::initializer_list<std::string> names) {
    std::string why;
    for (const std::string& name : names) {
      if (void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return DynamicLibrary(handle);
      const char* const message = ::dlerror();
      if (why.empty() && message != nullptr) why = message;
    }
    return unavailable(why + "; put the folder that holds it on LD_LIBRARY_PATH");
  }

  // False, and null, where the library has no such function.
  template <typename Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace trimtab::bench::cuda
