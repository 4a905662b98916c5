#pragma once

// What a job is called that nobody has named: by its script. Pure.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::cli {

// REQUIRES: `command` is not empty. "torchrun --nproc_per_node 2 src/train.py" is "train", "python3 -m pkg.mod" is
// "pkg.mod", "bash launch.sh" is "launch", else the program. A valid name always.
[[nodiscard]] std::string job_name_of(const std::vector<std::string>& command);

// A name that a person gave, or why it is none.
[[nodiscard]] Status check_job_name(const std::string& name);

// The name, or with the first of "-2", "-3"… that is not taken.
[[nodiscard]] std::string free_job_name(const std::string& wanted, const std::set<std::string>& taken);

}  // namespace trimtab::cli
