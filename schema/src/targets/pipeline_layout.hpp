#pragma once

// Megatron-LM's --pipeline-model-parallel-layout: "Ett|tt|(tt|)*2L" says what each stage has, E the embedding, t a
// layer, L the loss. Commas mean nothing, x*3 and (...)*3 repeat
// (megatron/core/transformer/pipeline_parallel_layer_layout.py).

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

// Layers of each stage. Fails on anything else, on what stands between the embedding and the loss but layers, and on a
// text that says more than kMostInLayout of them.
inline constexpr std::size_t kMostInLayout = 1 << 20;
[[nodiscard]] Result<std::vector<std::int32_t>> layers_of_layout(std::string_view text);

}  // namespace trimtab
