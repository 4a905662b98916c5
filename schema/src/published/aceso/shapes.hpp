#pragma once

// What an operator's published name says: its kind, its dimensions, its multiplications. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "published/aceso/tables.hpp"

namespace trimtab::published {

struct OperatorShape {
  std::string kind;                           // "linear", "attention", "layernorm", ...
  std::map<std::string, std::int64_t> sizes;  // empty for ResNet, whose shapes are not published
  std::int64_t forward_flops = 0;             // of the matrix products, per sample; 0 where it cannot be derived
  bool splits_two_ways = false;               // tensor parallelism may take its second dimension
};

// Whether the operator's backward pass reads what its forward pass was given or put out, as Aceso's runtime builds it
// (runtime/megatron/model/flex_ops.py): a softmax and a ReLU read their output, dropout its mask alone, and a sum,
// which ends ResNet's blocks under the name "downsample", nothing.
[[nodiscard]] bool reads_input(std::string_view op);
[[nodiscard]] bool reads_output(std::string_view op);

[[nodiscard]] OperatorShape shape_of(std::string_view op, const Setting& setting);

}  // namespace trimtab::published
