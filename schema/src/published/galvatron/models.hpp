#pragma once

// Costs and documents from the files of Galvatron's own profilers.

#include <string>
#include <vector>

#include "published/galvatron/folder.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

// A model without a document (its layers, width or batch are said nowhere) still has its costs, and a remark says what
// to say. `remarks`: of what was read.
[[nodiscard]] Result<Published> galvatron_from_folders(const GalvatronFolders& folders,
                                                       const ProfileSupplement& supplement,
                                                       std::vector<std::string> remarks);

}  // namespace trimtab::published
