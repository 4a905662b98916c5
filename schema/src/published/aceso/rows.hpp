#pragma once

// One file of Aceso's published profile each.

#include <string>
#include <vector>

#include "published/aceso/tables.hpp"

namespace trimtab::published {

[[nodiscard]] Result<std::vector<OperatorRow>> read_operator_rows(const std::string& directory);
[[nodiscard]] Result<std::vector<CollectiveRow>> read_collective_rows(const std::string& directory);
[[nodiscard]] Result<std::vector<TransferRow>> read_transfer_rows(const std::string& directory);
[[nodiscard]] Result<std::vector<Setting>> read_settings(const std::string& directory);
[[nodiscard]] Result<std::vector<OperatorList>> read_operator_lists(const std::string& directory);

}  // namespace trimtab::published
