// What the shared objects show to the process that they are loaded into.

#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "skipping.hpp"

namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  while (const std::size_t got = fread(buffer, 1, sizeof(buffer), pipe.get())) text.append(buffer, got);
  return text;
}

std::set<std::string> exports_of(const std::string& library) {
  std::istringstream lines(output_of("nm -D --defined-only " + library));
  std::set<std::string> names;
  std::string address;
  std::string type;
  std::string name;
  while (lines >> address >> type >> name) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("the injected library exports its interface and nothing else") {
  CHECK(exports_of(INJECT_LIBRARY) ==
        std::set<std::string>{"InitializeInjection", "InitializeInjectionNvtx2", "ncclProfiler_v4", "ncclProfiler_v5",
                              "ncclTunerPlugin_v4", "ncclTunerPlugin_v5", "trimtab_dropped", "trimtab_range_active",
                              "trimtab_range_pop", "trimtab_range_push"});
}

TEST_CASE("the injected library needs libc alone and stays in the process") {
  if (SANITIZED) {
    return trimtab::test::skip("a sanitizer adds libraries of its own");
  }
  const std::string dynamic = output_of(std::string("readelf -d ") + INJECT_LIBRARY);
  INFO(dynamic);
  CHECK(dynamic.find("[libc.so.6]") != std::string::npos);
  // libpthread and libdl are libc's own: before glibc 2.34 they hold what is in libc.so.6 now.
  for (const char* unwanted : {"libstdc++", "libgcc", "libm.so"}) {
    CHECK(dynamic.find(unwanted) == std::string::npos);
  }
  CHECK(dynamic.find("NODELETE") != std::string::npos);
}

#ifdef NVTX_SHIM
TEST_CASE("the NVTX shim exports its two functions") {
  CHECK(exports_of(NVTX_SHIM) == std::set<std::string>{"trimtab_nvtx_pop", "trimtab_nvtx_push"});
}
#endif
