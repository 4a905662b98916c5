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

// A CUresult, from CUDA's public manual, beside success, which is 0 there too.
constexpr int kDeinitialized = 4;  // the process is ending

// libcuda where the process has it; whoever loaded it holds it.
class Driver {
 public:
  Driver() : handle_(open_quietly("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) {}
  ~Driver() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  template <typename Function>
  [[nodiscard]] Function find(const char* name) const {
    Function function = nullptr;
    if (handle_ != nullptr) cupti::find(handle_, name, function);
    return function;
  }

 private:
  void* handle_;
};

using GetCount = int (*)(int*);
using GetDevice = int (*)(int*, int);
struct UuidBytes {
  unsigned char bytes[16];
};
using GetUuid = int (*)(UuidBytes*, int);

void write_text(const char* prefix, const UuidBytes& uuid, char* to) {
  constexpr char kDigits[] = "0123456789abcdef";
  while (*prefix != '\0') *to++ = *prefix++;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    *to++ = kDigits[uuid.bytes[i] >> 4];
    *to++ = kDigits[uuid.bytes[i] & 15];
  }
  *to = '\0';
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
  if (library.version >= kVersion14_0) return {record::kCuptiTooNew};
  if (!find_needed(handle, library)) return {record::kCuptiNoFunction};
  find_others(handle, library);
  return {record::kCuptiRunning};
}

bool cuda_has_begun() {
  const Driver driver;
  const auto get_count = driver.find<GetCount>("cuDeviceGetCount");
  int devices = 0;
  const int result = get_count == nullptr ? -1 : get_count(&devices);  // before cuInit it fails and does nothing
  return result == kSuccess || result == kDeinitialized;
}

// The second version of the call tells a MIG instance's own UUID, where the first tells its GPU's.
int read_device_uuids(DeviceUuid (&uuids)[kMostDevices]) {
  const Driver driver;
  const auto get_count = driver.find<GetCount>("cuDeviceGetCount");
  const auto get_device = driver.find<GetDevice>("cuDeviceGet");
  const auto get_uuid = driver.find<GetUuid>("cuDeviceGetUuid_v2");
  const auto get_gpu_uuid = driver.find<GetUuid>("cuDeviceGetUuid");
  int count = 0;
  if (get_count == nullptr || get_device == nullptr || get_uuid == nullptr || get_count(&count) != kSuccess) return 0;
  count = count < kMostDevices ? count : kMostDevices;
  for (int number = 0; number < count; ++number) {
    int device = 0;
    UuidBytes uuid = {};
    if (get_device(&device, number) != kSuccess || get_uuid(&uuid, device) != kSuccess) return number;
    UuidBytes gpu = uuid;
    const bool is_gpu = get_gpu_uuid == nullptr || get_gpu_uuid(&gpu, device) != kSuccess ||
                        __builtin_memcmp(gpu.bytes, uuid.bytes, sizeof(gpu.bytes)) == 0;
    write_text(is_gpu ? "GPU-" : "MIG-", uuid, uuids[number].text);
  }
  return count;
}

}  // namespace trimtab::inject::cupti
