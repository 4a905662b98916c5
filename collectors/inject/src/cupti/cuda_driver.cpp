#include "cuda_driver.hpp"

#include <dlfcn.h>

namespace trimtab::inject::cupti {

namespace {

// CUresult, from CUDA's public manual.
constexpr int kSuccess = 0;
constexpr int kDeinitialized = 4;  // the process is ending

// libcuda where the process has it; whoever loaded it holds it.
class Driver {
 public:
  Driver() : handle_(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) {
    if (handle_ == nullptr) dlerror();  // the program's next dlerror() is not to be about us
  }
  ~Driver() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  template <typename Function>
  [[nodiscard]] Function find(const char* name) const {
    void* found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    if (handle_ != nullptr && found == nullptr) dlerror();
    return reinterpret_cast<Function>(found);
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
