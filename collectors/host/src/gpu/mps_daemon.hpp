#pragma once

// CUDA's Multi-Process Service: whether processes here share their GPUs through it.

#include <map>
#include <string>

namespace trimtab::host {

struct MpsDaemon {
  std::string pipe_directory;  // that CUDA programs look into
  bool has_pipe = false;       // a control pipe stands there: new CUDA programs connect to it
  bool seen = false;           // a daemon runs, in this process namespace
  // Costs may be those of a shared GPU. A pipe that a dead daemon left behind counts, too: to keep costs apart without
  // need does less harm than to mix them.
  [[nodiscard]] bool on() const { return has_pipe || seen; }
};

[[nodiscard]] MpsDaemon find_mps(const std::string& root, const std::map<std::string, std::string>& environment);

}  // namespace trimtab::host
