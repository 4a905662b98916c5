#pragma once

// What an operator's published name says: its kind, its dimensions, its multiplications. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "published/aceso_tables.hpp"

namespace trimtab::published {

struct OperatorShape {
  std::string kind;                           // "linear", "attention", "layernorm", ...
  std::map<std::string, std::int64_t> sizes;  // empty for ResNet, whose shapes are not published
  std::int64_t forward_flops = 0;             // of the matrix products, per sample; 0 where it cannot be derived
  bool splits_two_ways = false;               // tensor parallelism may take its second dimension
};

[[nodiscard]] OperatorShape shape_of(std::string_view op, const Setting& setting);

}  // namespace trimtab::published
