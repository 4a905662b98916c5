#pragma once

// What a person should know of the hardware under a watched command: what of it is not recorded, and what is. Pure.

#include <string>
#include <vector>

#include "host/amd_gpus.hpp"
#include "run/variables.hpp"

namespace trimtab::cli {

// A line for each; none on ordinary hardware.
[[nodiscard]] std::vector<std::string> hardware_notes(const std::vector<host::AmdGpu>& gpus,
                                                      const Variables& variables);

}  // namespace trimtab::cli
