#pragma once

// The formats of one file each. Those of whole folders: aceso/ and galvatron/.

#include "schema/published.hpp"

namespace trimtab::published {

[[nodiscard]] Result<Published> read_nccl_tests(const std::vector<std::string>& files);
// DIRECTORY/profile_3090.csv.
[[nodiscard]] Result<Published> read_oases(const std::string& directory);

}  // namespace trimtab::published
