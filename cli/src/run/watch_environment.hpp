#pragma once

// The environment of a process that is to be watched: what `trimtab run` sets and `trimtab attach` prints. Pure.

#include "run/variables.hpp"

namespace trimtab::cli {

struct WatchPlaces {
  std::string socket;   // the agent's
  std::string job;      // its name
  std::string library;  // libtrimtab-inject.so
  std::string client;   // the folder that holds the Python packages trimtab and watch_hook
};

// What to change in an environment that is `own` now. The user's own libraries keep their places: of NVTX and CUDA,
// which load one alone; a profiler of NCCL is called behind ours.
[[nodiscard]] VariableChanges watch_changes(const Variables& own, const WatchPlaces& places);

}  // namespace trimtab::cli
