#include "run/watch_environment.hpp"

namespace trimtab::cli {

namespace {

void set_unless_own(VariableChanges& changes, const Variables& own, const char* name, const std::string& value) {
  if (value_of(own, name).empty()) changes[name] = value;
}

}  // namespace

VariableChanges watch_changes(const Variables& own, const WatchPlaces& places) {
  VariableChanges changes{{"TRIMTAB_SOCKET", places.socket},
                          {"TRIMTAB_JOB", places.job},
                          {"TRIMTAB_WATCH", "1"},
                          {"TRIMTAB_LIBRARY", places.library},
                          {"NCCL_PROFILER_PLUGIN", places.library}};
  set_unless_own(changes, own, "NVTX_INJECTION64_PATH", places.library);
  set_unless_own(changes, own, "CUDA_INJECTION64_PATH", places.library);
  const std::string profiler = value_of(own, "NCCL_PROFILER_PLUGIN");
  if (!profiler.empty() && profiler != places.library) changes["TRIMTAB_NCCL_PROFILER_NEXT"] = profiler;
  // What the timing of channels costs on the device cannot be seen from the process: a part of the time is enough.
  set_unless_own(changes, own, "TRIMTAB_NCCL_DETAIL", "sampled");
  const std::string hook = places.client + "/watch_hook:" + places.client;
  const std::string path = value_of(own, "PYTHONPATH");
  const bool has_hook = path == hook || path.starts_with(hook + ":");
  if (!has_hook) changes["PYTHONPATH"] = path.empty() ? hook : hook + ":" + path;
  return changes;
}

}  // namespace trimtab::cli
