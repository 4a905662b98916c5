#include "schema/traces/traced_collective.hpp"

#include <algorithm>
#include <array>

namespace trimtab {

namespace {

struct Type {
  std::string_view theirs;  // in lower case
  TracedType ours;
};
constexpr std::array<Type, 22> kTypes{{{"bfloat16", {"bfloat16", 2}},
                                       {"bool", {"bool", 1}},
                                       {"byte", {"uint8", 1}},
                                       {"char", {"int8", 1}},
                                       {"double", {"float64", 8}},
                                       {"float", {"float32", 4}},
                                       {"float16", {"float16", 2}},
                                       {"float32", {"float32", 4}},
                                       {"float64", {"float64", 8}},
                                       {"float8_e4m3fn", {"float8e4m3", 1}},
                                       {"float8_e5m2", {"float8e5m2", 1}},
                                       {"half", {"float16", 2}},
                                       {"int", {"int32", 4}},
                                       {"int32", {"int32", 4}},
                                       {"int64", {"int64", 8}},
                                       {"int8", {"int8", 1}},
                                       {"long", {"int64", 8}},
                                       {"long int", {"int64", 8}},
                                       {"short", {"int16", 2}},
                                       {"signed char", {"int8", 1}},
                                       {"uint8", {"uint8", 1}},
                                       {"unsigned char", {"uint8", 1}}}};

}  // namespace

TracedType traced_type(std::string_view name) {
  constexpr std::string_view kNamespace = "c10::";
  if (name.starts_with(kNamespace)) name.remove_prefix(kNamespace.size());
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto* const found = std::ranges::find(kTypes, lower, &Type::theirs);
  return found == kTypes.end() ? TracedType{} : found->ours;
}

bool ends_together(std::string_view primitive) {
  return primitive == "all_reduce" || primitive == "all_gather" || primitive == "reduce_scatter" ||
         primitive == "all_to_all";
}

std::int64_t bytes_of_count(std::string_view primitive, std::int64_t counted, std::int64_t ranks) {
  return primitive == "reduce_scatter" || primitive == "all_to_all" ? counted * ranks : counted;
}

}  // namespace trimtab
