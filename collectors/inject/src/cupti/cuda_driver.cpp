#include "cuda_driver.hpp"

#include <dlfcn.h>

namespace trimtab::inject::cupti {

namespace {

// CUresult, from CUDA's public manual.
constexpr int kSuccess = 0;
constexpr int kDeinitialized = 4;  // the process is ending

}  // namespace

bool cuda_has_begun() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) {
    dlerror();  // the program's next dlerror() is not to be about us
    return false;
  }
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (get_count == nullptr) dlerror();
  int devices = 0;
  const int result = get_count == nullptr ? -1 : get_count(&devices);  // before cuInit it fails and does nothing
  dlclose(driver);                                                     // whoever loaded it holds it
  return result == kSuccess || result == kDeinitialized;
}

}  // namespace trimtab::inject::cupti
