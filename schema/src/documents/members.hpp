#pragma once

// A document's members in both directions. A function template members(m, value) of a struct names each of them once,
// in the order in which they are written: `m` is a MemberReader, or a MemberWriter and the value const. Members are
// texts, numbers, flags, times (integers of nanoseconds), such structs, and optionals, vectors and maps of them.

#include <concepts>
#include <type_traits>

#include "base/clock.hpp"
#include "documents/json_reader.hpp"
#include "documents/model_bounds.hpp"

namespace trimtab {

template <typename T, typename Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

template <typename T>
inline constexpr IntegerLimits kUsualLimits = std::same_as<T, std::int32_t> ? kNonNegative32 : kNonNegative;
template <typename T>
inline constexpr IntegerLimits kUsualLimits<std::vector<T>> = kUsualLimits<T>;
template <typename T>
inline constexpr IntegerLimits kUsualLimits<std::optional<T>> = kUsualLimits<T>;

// The global batch of a model or a plan, and what is a part of it.
inline constexpr IntegerLimits kSamples{1, kMostGlobalBatch, "a number of samples between 1 and 1048576"};
static_assert(kMostGlobalBatch == 1048576, "the message names it");

// A type that is no struct of members may have read_json() and write_json() of its own.
class MemberReader {
 public:
  static constexpr bool kReads = true;
  explicit MemberReader(JsonReader object) : in(object) {}

  template <typename T>
  void needed(std::string_view name, T& value, const IntegerLimits& limits = kUsualLimits<T>) {
    read(in.at(name), value, limits);
  }
  // Where it is missing the value stays as it is.
  template <typename T>
  void always(std::string_view name, T& value, const IntegerLimits& limits = kUsualLimits<T>) {
    if (const JsonReader member = in.at(name); member.present()) read(member, value, limits);
  }
  template <typename T>
  void unless(const std::type_identity_t<T>&, std::string_view name, T& value,
              const IntegerLimits& limits = kUsualLimits<T>) {
    always(name, value, limits);
  }
  // An array of at least one.
  template <typename T>
  void list(std::string_view name, std::vector<T>& values, const IntegerLimits& limits = kUsualLimits<T>) {
    in.at(name).each_required([&](const JsonReader& item) { read(item, values.emplace_back(), limits); });
  }
  template <typename T, std::size_t N>
  void word(std::string_view name, T& value, const std::string_view (&words)[N]) {
    const JsonReader member = in.at(name);
    if (!member.present()) return;
    if constexpr (std::same_as<T, std::string>) {
      value = words[member.choice_or(0, words)];
    } else {
      value = static_cast<T>(member.choice_or(0, words));
    }
  }
  void inside(std::string_view name, const auto& describe) {
    MemberReader object(in.at(name));
    describe(object);
  }

  const JsonReader in;

 private:
  template <typename T>
  static void read(const JsonReader& from, T& value, const IntegerLimits& limits) {
    if constexpr (std::same_as<T, std::string>) {
      value = from.text();
    } else if constexpr (std::same_as<T, bool>) {
      value = from.flag_or(value);
    } else if constexpr (std::integral<T>) {
      value = static_cast<T>(from.integer(limits));
    } else if constexpr (std::floating_point<T>) {
      value = from.number();
    } else if constexpr (std::same_as<T, Nanoseconds>) {
      value = Nanoseconds(from.integer(limits));
    } else if constexpr (requires {
                           value.emplace();
                           value.has_value();
                         }) {
      read(from, value.emplace(), limits);
    } else if constexpr (requires { value.emplace_back(); }) {
      value.clear();
      from.each([&](const JsonReader& item) { read(item, value.emplace_back(), limits); });
    } else if constexpr (requires { typename T::mapped_type; }) {
      from.each_member([&](const std::string& name, const JsonReader& item) { read(item, value[name], limits); });
    } else if constexpr (requires { read_json(from, value); }) {
      read_json(from, value);
    } else {
      MemberReader object(from);
      members(object, value);
    }
  }
};

class MemberWriter {
 public:
  static constexpr bool kReads = false;

  template <typename T>
  void needed(std::string_view name, const T& value, const IntegerLimits& = {}) {
    always(name, value);
  }
  // Nothing of an optional is left out.
  template <typename T>
  void always(std::string_view name, const T& value, const IntegerLimits& = {}) {
    if constexpr (requires { value.has_value(); }) {
      if (value) json[std::string(name)] = written(*value);
    } else {
      json[std::string(name)] = written(value);
    }
  }
  template <typename T>
  void unless(const std::type_identity_t<T>& usual, std::string_view name, const T& value, const IntegerLimits& = {}) {
    if (value != usual) always(name, value);
  }
  template <typename T>
  void list(std::string_view name, const std::vector<T>& values, const IntegerLimits& = {}) {
    always(name, values);
  }
  template <typename T, std::size_t N>
  void word(std::string_view name, const T& value, const std::string_view (&words)[N]) {
    if constexpr (std::same_as<T, std::string>) {
      always(name, value);
    } else {
      json[std::string(name)] = words[static_cast<std::size_t>(value)];
    }
  }
  // An object without members is left out.
  void inside(std::string_view name, const auto& describe) {
    MemberWriter object;
    describe(object);
    if (!object.json.empty()) json[std::string(name)] = std::move(object.json);
  }

  OrderedJson json;

 private:
  template <typename T>
  static OrderedJson written(const T& value) {
    if constexpr (std::same_as<T, Nanoseconds>) {
      return value.count();
    } else if constexpr (requires { write_json(value); }) {
      return write_json(value);
    } else if constexpr (std::constructible_from<OrderedJson, const T&>) {
      return value;
    } else if constexpr (requires { value.front(); }) {
      OrderedJson array = OrderedJson::array();
      for (const auto& one : value) array.push_back(written(one));
      return array;
    } else {
      MemberWriter object;
      members(object, value);
      return std::move(object.json);
    }
  }
};

// `schema` as of JsonDocument::parse().
template <typename Document>
[[nodiscard]] Result<Document> parse_document(std::string_view json, std::string_view source, std::string_view schema) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, schema));
  Document value;
  MemberReader root(document.root());
  members(root, value);
  TRIMTAB_TRY_STATUS(document.status());
  return value;
}

template <typename Document>
[[nodiscard]] OrderedJson written_json(const Document& value, std::string_view schema) {
  MemberWriter root;
  if (!schema.empty()) root.json["schema"] = schema;
  members(root, value);
  return std::move(root.json);
}
template <typename Document>
[[nodiscard]] std::string written_document(const Document& value, std::string_view schema) {
  return dump(written_json(value, schema));
}

}  // namespace trimtab
