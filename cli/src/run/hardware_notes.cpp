#include "run/hardware_notes.hpp"

namespace trimtab::cli {

std::vector<std::string> hardware_notes(const std::vector<host::AmdGpu>& gpus, const Variables& variables) {
  std::vector<std::string> notes;
  if (!gpus.empty()) {
    notes.push_back(host::amd_gpus_text(gpus) +
                    " here: no kernels, clocks or memory of these are recorded. Steps, their parts, ranges and the "
                    "host's metrics are, and the card is of these");
  }
  if (value_of(variables, "CUDA_VISIBLE_DEVICES").find("MIG-") != std::string::npos) {
    notes.emplace_back(
        "CUDA_VISIBLE_DEVICES names MIG instances: what is measured is a part of a device, beside whatever runs on "
        "its other instances");
  }
  if (!value_of(variables, "CUDA_MPS_PIPE_DIRECTORY").empty()) {
    notes.emplace_back("CUDA_MPS_PIPE_DIRECTORY is set: by MPS other processes may share the device meanwhile");
  }
  return notes;
}

}  // namespace trimtab::cli
