#pragma once

// Runs of nccl-tests as costs: one profile for each file, under the fingerprint that the files themselves tell.

#include <string>
#include <vector>

#include "schema/published.hpp"

namespace trimtab::published {

[[nodiscard]] Result<Published> read_nccl_tests(const std::vector<std::string>& files);

}  // namespace trimtab::published
