#pragma once

// model.json of a PyTorch module, which the client's own module makes (client/python/trimtab/module_model.py).

#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::cli {

struct ModuleModel {
  std::string python;                    // that has PyTorch
  std::string module;                    // "my_model:layers"
  std::string batch;                     // samples of a step; empty: the module's own word
  std::string name;                      // empty: the module's
  std::vector<std::string> environment;  // NAME=VALUE beside this process's
};

// Its text. Takes minutes where the module is large: it is built, and run once for each distinct layer.
[[nodiscard]] Result<std::string> model_of_module(const ModuleModel& asked);

}  // namespace trimtab::cli
