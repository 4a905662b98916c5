#include "gpu/nvml_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace trimtab::host {

namespace {

template <typename Function>
void load(void* handle, const char* name, Function*& slot) {
  slot = reinterpret_cast<Function*>(::dlsym(handle, name));
}

void load_all(void* handle, nvml::Functions& call) {
#define TRIMTAB_NVML_LOAD(name, ...) load(handle, #name, call.name);
  TRIMTAB_NVML_FUNCTIONS(TRIMTAB_NVML_LOAD)
#undef TRIMTAB_NVML_LOAD
  load(handle, "nvmlErrorString", call.nvmlErrorString);
}

// This device, driver or library does not have what is asked for.
bool means_absent(int code) {
  constexpr std::array kCodes{nvml::kNotSupported, nvml::kFunctionNotFound, nvml::kDeprecated};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

bool means_no_gpu(int code) {
  constexpr std::array kCodes{nvml::kDriverNotLoaded, nvml::kLibraryNotFound, nvml::kGpuNotFound};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

}  // namespace

void NvmlRefusals::add(std::string text) {
  if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(std::move(text));
}

Result<std::shared_ptr<NvmlLibrary>> NvmlLibrary::open(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return no("NVML cannot be loaded: " + std::string(reason != nullptr ? reason : name));
  }
  std::shared_ptr<NvmlLibrary> library(new NvmlLibrary);
  load_all(handle, library->call);
  TRIMTAB_TRY_STATUS(library->start());
  return library;
}

Status NvmlLibrary::start() {
  if (call.nvmlInit_v2 == nullptr || call.nvmlDeviceGetCount_v2 == nullptr ||
      call.nvmlDeviceGetHandleByIndex_v2 == nullptr) {
    return unavailable("this NVML is too old: it lacks nvmlInit_v2 or device counts; update the NVIDIA driver");
  }
  const int code = call.nvmlInit_v2();
  started_ = code == nvml::kSuccess;
  if (started_) return {};
  const std::string message = "NVML does not start: " + describe(code);
  return means_no_gpu(code) ? no(message) : unavailable(message);
}

NvmlLibrary::~NvmlLibrary() {
  if (started_ && call.nvmlShutdown != nullptr) call.nvmlShutdown();
}

std::string NvmlLibrary::describe(int code) const {
  const char* text = call.nvmlErrorString != nullptr ? call.nvmlErrorString(code) : nullptr;
  return std::string(text != nullptr ? text : "unknown error") + " (NVML code " + std::to_string(code) + ")";
}

bool NvmlLibrary::succeeded(const char* name, int code, NvmlRefusals& refusals) const {
  if (code == nvml::kSuccess) return true;
  if (!means_absent(code)) {
    refusals.add(std::string(name) + ": " + describe(code));
  }
  return false;
}

}  // namespace trimtab::host
