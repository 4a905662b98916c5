// The library's whole interface (exports.map). Everything else is hidden.

#include <atomic>
#include <cstdint>

#include "collector_status.hpp"
#include "cupti/collector.hpp"
#include "nvtx_callbacks.hpp"
#include "recorder.hpp"
#include "trimtab/client.h"

namespace {

using trimtab::inject::recorder;

// The domain of the client's ranges: theirs and NVTX's in the domain of this name are the same records.
std::uint32_t client_domain() {
  static std::atomic<std::uint32_t> handle{0};
  std::uint32_t known = handle.load(std::memory_order_relaxed);
  if (known == 0) [[unlikely]] {
    known = recorder.domains.create("trimtab", 7);
    handle.store(known, std::memory_order_relaxed);
  }
  return known;
}

}  // namespace

extern "C" {

// Called by the program's copy of NVTX at its first call; 0 turns that copy into no-ops.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    trimtab::inject::nvtx::GetExportTable get_export_table) {
  return recorder.session.wanted() && trimtab::inject::nvtx::attach(get_export_table) ? 1 : 0;
}

// Called by the CUDA driver in the process's first cuInit. It is always told that all is well: what is not well is ours
// to bear.
__attribute__((visibility("default"))) int InitializeInjection() {
  trimtab::inject::collector_status.injected.store(true, std::memory_order_relaxed);
  if (recorder.session.wanted()) trimtab::inject::cupti::collector.start(recorder.session);
  return 1;
}

__attribute__((visibility("default"))) void trimtab_range_push(const char* name, int64_t payload) {
  if (!recorder.wants()) return;
  recorder.push(client_domain(), {.text = name, .payload = payload, .has_payload = true});
}

__attribute__((visibility("default"))) void trimtab_range_pop(void) {
  if (recorder.wants()) recorder.pop(client_domain());
}

__attribute__((visibility("default"))) int trimtab_range_active(void) {
  return recorder.session.recording() ? 1 : 0;
}

__attribute__((visibility("default"))) uint64_t trimtab_dropped(void) {
  return recorder.session.lost();
}

}  // extern "C"
