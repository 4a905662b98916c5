#pragma once

// The JSON of a described document, members sorted by name. Numbers that are none become null, bytes that are not UTF-8
// become U+FFFD.

#include <string>
#include <string_view>
#include <type_traits>

#include "api/document_kinds.hpp"
#include "documents/json_document.hpp"

namespace trimtab::api {

// Whether a member with Presence::kIfAny is left out.
template <typename T>
[[nodiscard]] bool is_nothing(const T& value) {
  if constexpr (kIsOptional<T>) {
    return !value.has_value();
  } else if constexpr (std::same_as<T, std::string> || kIsList<T>) {
    return value.empty();
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value == T{};
  } else {
    return false;
  }
}

[[nodiscard]] inline Json written_document(const Carried& document) {
  if (document.json.empty()) return nullptr;
  Json tree = Json::parse(document.json, nullptr, false, true);
  return tree.is_discarded() ? Json(document.json) : tree;
}

template <typename T>
[[nodiscard]] Json written(const T& value) {
  if constexpr (Described<T>) {
    Json object = Json::object();
    T::fields([&](std::string_view name, auto member, Presence presence, std::string_view, Sign = {}) {
      if (presence != Presence::kIfAny || !is_nothing(value.*member))
        object[std::string(name)] = written(value.*member);
    });
    return object;
  } else if constexpr (CarriedDocument<T>) {
    return written_document(value);
  } else if constexpr (kIsOptional<T>) {
    return value ? written(*value) : Json();
  } else if constexpr (kIsList<T>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(written(one));
    return list;
  } else if constexpr (kIsPair<T>) {
    return Json::array({written(value.first), written(value.second)});
  } else if constexpr (kIsEither<T>) {
    return std::visit([](const auto& one) { return written(one); }, value);
  } else if constexpr (kIsWord<T>) {
    return value.text();
  } else {
    return value;
  }
}

template <typename Document>
std::string to_json(const Document& document) {
  return dump(written(document));
}

}  // namespace trimtab::api
