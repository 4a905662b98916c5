#pragma once

// The limits of a process under /proc by its name there: a number, or "self".

#include <string>

#include "host/process_facts.hpp"

namespace trimtab::host {

[[nodiscard]] Result<CgroupLimits> cgroup_limits_of(const std::string& root, const std::string& process);

}  // namespace trimtab::host
