#pragma once

// Enumerations that have a word for each of their values, in their order: words_of(value) is the list of all.

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

namespace trimtab {

template <typename Enum>
requires requires(Enum value) {
  { words_of(value) } -> std::same_as<std::span<const std::string_view>>;
}
[[nodiscard]] std::string_view to_string(Enum value) {
  return words_of(value)[static_cast<std::size_t>(value)];
}

namespace api {
using trimtab::to_string;
}

}  // namespace trimtab
