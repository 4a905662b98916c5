#pragma once

// A library that the machine may or may not have, opened when it is needed and never closed.

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "base/result.hpp"

namespace trimtab::bench::cuda {

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

  // Null where the library has no such function.
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace trimtab::bench::cuda
