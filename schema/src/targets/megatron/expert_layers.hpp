#pragma once

// Which layers have experts, as Megatron-LM's --moe-layer-freq says it. Pure.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

// "2": every second layer, from the first on. "([0]*3+[1]*58)": a Python list of a 0 or a 1 for each layer. Fails where
// it is neither, or of another number of layers. REQUIRES: layers above 0.
[[nodiscard]] Result<std::vector<bool>> layers_with_experts(std::string_view frequency, std::int64_t layers);

}  // namespace trimtab
