#pragma once

// The formats of one file each. Those of whole folders: aceso/ and galvatron/.

#include "schema/published.hpp"

namespace trimtab::published {

// Traces of all ranks of a job, or of some. `devices_per_node`: ranks fill nodes in order; 0 = not said.
[[nodiscard]] Result<Published> read_trace_costs(const std::vector<std::string>& files, std::int32_t devices_per_node);
[[nodiscard]] Result<Published> read_nccl_inspector(const std::vector<std::string>& files);
[[nodiscard]] Result<Published> read_nccl_tests(const std::vector<std::string>& files);
// DIRECTORY/profile_3090.csv.
[[nodiscard]] Result<Published> read_oases(const std::string& directory);

}  // namespace trimtab::published
