#include "cupti_library.hpp"

#include <dlfcn.h>

namespace trimtab::inject::cupti {

namespace {

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};

// Where the toolkit puts it and the loader does not look.
constexpr const char* kPaths[] = {"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                  "/usr/local/cuda/lib64/libcupti.so"};

struct Pair {
  const char* runtime;
  const char* cupti;
};
constexpr Pair kPairs[] = {{"libcudart.so.13", "libcupti.so.13"},
                           {"libcudart.so.12", "libcupti.so.12"},
                           {"libcudart.so.11.0", "libcupti.so.11.8"}};

void* open_quietly(const char* name, int mode) {
  void* handle = dlopen(name, mode);
  if (handle == nullptr) dlerror();  // the program's next dlerror() is not to be about us
  return handle;
}

void* open_loaded() {
  for (const char* name : kNames) {
    if (void* handle = open_quietly(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  }
  return nullptr;
}

void* open_installed() {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  for (const Pair& pair : kPairs) {
    if (open_quietly(pair.runtime, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) == nullptr) continue;
    if (void* handle = open_quietly(pair.cupti, kMode)) return handle;
  }
  for (const char* name : kNames) {
    if (void* handle = open_quietly(name, kMode)) return handle;
  }
  for (const char* path : kPaths) {
    if (void* handle = open_quietly(path, kMode)) return handle;
  }
  return nullptr;
}

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) dlerror();
  return function != nullptr;
}

bool find_needed(void* handle, Library& library) {
  return find(handle, "cuptiActivityRegisterCallbacks", library.register_callbacks) &&
         find(handle, "cuptiActivityEnable", library.enable) && find(handle, "cuptiActivityDisable", library.disable) &&
         find(handle, "cuptiActivityFlushAll", library.flush_all) &&
         find(handle, "cuptiActivityGetNextRecord", library.get_next_record) &&
         find(handle, "cuptiActivityGetNumDroppedRecords", library.get_dropped);
}

void find_others(void* handle, Library& library) {
  const bool correlates = library.version >= kVersion12_5 &&
                          find(handle, "cuptiActivityEnableDriverApi", library.switch_driver_api) &&
                          find(handle, "cuptiActivityEnableRuntimeApi", library.switch_runtime_api) &&
                          find(handle, "cuptiActivityPopExternalCorrelationId", library.pop_external_id) &&
                          find(handle, "cuptiActivityPushExternalCorrelationId", library.push_external_id);
  if (!correlates) library.push_external_id = nullptr;
  find(handle, "cuptiActivityRegisterTimestampCallback", library.register_timestamp);
  find(handle, "cuptiFinalize", library.finalize);
  if (library.version >= kVersion13_3) find(handle, "cuptiActivityGetEnabledKinds", library.get_enabled_kinds);
}

}  // namespace

CuptiState state_of(Call call, Result result) {
  if (result == kSuccess) return {record::kCuptiRunning, kCallNone, kSuccess};
  return {result == kMultipleSubscribers ? record::kCuptiBusy : record::kCuptiRefused, call, result};
}

CuptiState load_library(const char* path, Library& library) {
  void* handle = nullptr;
  if (path != nullptr && *path != '\0') {
    handle = open_quietly(path, RTLD_NOW | RTLD_LOCAL);
  } else {
    handle = open_loaded();
    if (handle == nullptr) handle = open_installed();
  }
  if (handle == nullptr) return {record::kCuptiNoLibrary};
  if (!find(handle, "cuptiGetVersion", library.get_version)) return {record::kCuptiNoFunction};
  const Result result = library.get_version(&library.version);
  if (result != kSuccess) return state_of(kCallGetVersion, result);
  if (library.version < kVersion11_8) return {record::kCuptiTooOld};
  if (!find_needed(handle, library)) return {record::kCuptiNoFunction};
  find_others(handle, library);
  return {record::kCuptiRunning};
}

}  // namespace trimtab::inject::cupti
