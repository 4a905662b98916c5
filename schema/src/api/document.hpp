#pragma once

// The writer and the reader of described documents (schema/api/fields.hpp), and what kinds of members they have.

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "documents/json_document.hpp"
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

// Where a value stands. A chain of places on the stack: a path is text only once it is needed.
struct Place {
  const Place* within = nullptr;
  std::string_view name = {};  // of a member; empty: an element, or the root
  std::size_t index = 0;

  [[nodiscard]] std::string path() const;
};

class DocumentReader {
 public:
  // Of a whole document, which is an object.
  template <typename T>
  void read_root(const Json& json, T& value) {
    read_members(json, Place{}, value);
  }

  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  // "$.trials[1].state: expected a text, but found number"
  [[nodiscard]] const std::string& failure() const { return *failure_; }

 private:
  template <typename T>
  void read(const Json& json, const Place& place, T& value, Sign sign = {}) {
    if (json.is_null()) return;
    if constexpr (Described<T>) {
      read_members(json, place, value);
    } else if constexpr (CarriedDocument<T>) {
      value.json = dump(json);
    } else if constexpr (kIsOptional<T>) {
      read(json, place, value.emplace(), sign);
    } else if constexpr (kIsList<T>) {
      if (!is(json.is_array(), json, place, "an array")) return;
      for (const Json& one : json) {
        const Place here{&place, {}, value.size()};
        read(one, here, value.emplace_back(), sign);
      }
    } else if constexpr (kIsPair<T>) {
      if (!is(json.is_array() && json.size() == 2, json, place, "an array of two")) return;
      read(json[0], {&place, {}, 0}, value.first, sign);
      read(json[1], {&place, {}, 1}, value.second, sign);
    } else if constexpr (kIsEither<T>) {
      if (json.is_string()) return read(json, place, value.template emplace<1>());
      read(json, place, value.template emplace<0>(), sign);
    } else if constexpr (kIsWord<T>) {
      if (is(json.is_string(), json, place, "a text")) value = T(json.get_ref<const std::string&>());
    } else if constexpr (std::same_as<T, std::string>) {
      if (is(json.is_string(), json, place, "a text")) value = json.get<std::string>();
    } else if constexpr (std::same_as<T, bool>) {
      if (is(json.is_boolean(), json, place, "true or false")) value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(json, place, value, sign);
    } else {
      if (is(json.is_number(), json, place, "a number")) value = json.get<double>();
    }
  }

  void fail(const Place& place, const std::string& message);
  // False, and the failure, where it does not hold.
  bool is(bool holds, const Json& json, const Place& place, const char* expected);

  template <typename T>
  void read_members(const Json& json, const Place& place, T& value) {
    if (!is(json.is_object(), json, place, "an object")) return;
    T::fields([&](std::string_view name, auto member, Presence presence, std::string_view, Sign sign = {}) {
      if (failed()) return;
      const Place here{&place, name};
      const auto found = json.find(name);
      if (found != json.end()) return read(*found, here, value.*member, sign);
      if (presence == Presence::kNeeded) fail(here, "missing");
    });
  }

  // A float counts as far as it is exact, without its fraction.
  template <typename T>
  void read_integer(const Json& json, const Place& place, T& value, Sign sign) {
    constexpr double kExactFloat = 9e15;
    if (!is(json.is_number(), json, place, "a number")) return;
    bool fits = false;
    if (json.is_number_unsigned()) {
      fits = std::in_range<T>(json.get<std::uint64_t>());
    } else if (json.is_number_integer()) {
      fits = sign == Sign::kAny && std::in_range<T>(json.get<std::int64_t>());
    } else {
      const auto number = json.get<double>();
      fits = number < kExactFloat && number >= (sign == Sign::kAny ? -kExactFloat : 0) &&
             std::in_range<T>(static_cast<std::int64_t>(number));
    }
    const char* expected = sign == Sign::kAny ? "a number from -9e15 to 9e15" : "a number from 0 to 9e15";
    if (is(fits, json, place, expected)) value = json.get<T>();
  }

  std::optional<std::string> failure_;
};

// The tree, "no JSON" or "nested deeper than ...".
[[nodiscard]] Result<Json> parse_tree(std::string_view text);

template <typename Document>
Result<Document> parse(std::string_view json, std::string_view source) {
  const std::string prefix = source.empty() ? std::string() : std::string(source) + ": ";
  const auto tree = parse_tree(json);
  if (!tree.ok()) return bad_input(prefix + tree.error().message);
  Document document;
  DocumentReader reader;
  reader.read_root(*tree, document);
  if (reader.failed()) return bad_input(prefix + reader.failure());
  return document;
}

}  // namespace trimtab::api
