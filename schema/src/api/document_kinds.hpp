#pragma once

// What kinds of members a described document has (schema/api/fields.hpp): for its writer, its reader and its schema.

#include <concepts>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schema/api/fields.hpp"

namespace trimtab::api {

template <typename T>
concept Described = requires {
  T::fields([](auto&&...) {});
};
template <typename T>
concept CarriedDocument = std::derived_from<T, Carried>;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename A, typename B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <typename T>
inline constexpr bool kIsEither = false;
template <typename A, typename B>
inline constexpr bool kIsEither<std::variant<A, B>> = true;
template <typename T>
inline constexpr bool kIsWord = false;
template <typename Enum>
inline constexpr bool kIsWord<Word<Enum>> = true;

}  // namespace trimtab::api
