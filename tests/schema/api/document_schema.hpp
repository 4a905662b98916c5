#pragma once

// The JSON Schema of a described document (schema/api/fields.hpp).

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/document.hpp"
#include "documents/json_document.hpp"
#include "schema/timeline.hpp"

namespace trimtab {

// As schema/api has them of its own enumerations.
[[nodiscard]] inline std::vector<std::string_view> words_of(TimelineKind) {
  std::vector<std::string_view> words;
  for (const TimelineKind kind : kTimelineKinds) words.push_back(to_string(kind));
  return words;
}

}  // namespace trimtab

namespace trimtab::test {

class DocumentSchema {
 public:
  // What documents of other programs are held to: the text of NAME.schema.json.
  template <typename Document>
  [[nodiscard]] static std::string text(const std::string& name, const std::string& title,
                                        const std::string& description) {
    DocumentSchema made;
    OrderedJson schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                          {"$id", name + ".schema.json"},
                          {"title", title},
                          {"description", description}};
    schema.update(made.object<Document>());
    schema["$defs"] = made.definitions_;
    return schema.dump(2) + "\n";
  }

 private:
  template <typename T>
  OrderedJson object() {
    OrderedJson schema = {
        {"type", "object"}, {"required", OrderedJson::array()}, {"properties", OrderedJson::object()}};
    T::fields(
        [&](std::string_view name, auto member, api::Presence presence, std::string_view doc, api::Sign sign = {}) {
          using Member = std::remove_cvref_t<decltype(std::declval<T>().*member)>;
          const bool required = presence == api::Presence::kAlways || presence == api::Presence::kNeeded;
          if (required) schema["required"].push_back(name);
          OrderedJson value = of<Member>(sign);
          constexpr bool kMayBeNothing = api::kIsOptional<Member> || api::CarriedDocument<Member>;
          if (kMayBeNothing && presence == api::Presence::kUsual) value = or_null(value);
          if (!doc.empty()) value["description"] = doc;
          schema["properties"][std::string(name)] = value;
        });
    if (schema["required"].empty()) schema.erase("required");
    return schema;
  }

  template <typename T>
  OrderedJson of(api::Sign sign) {
    if constexpr (api::Described<T>) {
      if constexpr (requires { T::kName; }) {
        if (!definitions_.contains(T::kName)) definitions_[T::kName] = object<T>();
        return {{"$ref", std::string("#/$defs/") + T::kName}};
      } else {
        return object<T>();
      }
    } else if constexpr (std::same_as<T, api::CarriedPlan>) {
      return {{"$ref", "plan.schema.json"}};
    } else if constexpr (std::same_as<T, api::CarriedCluster>) {
      return {{"$ref", "cluster.schema.json"}};
    } else if constexpr (api::CarriedDocument<T>) {
      return OrderedJson::object();
    } else if constexpr (api::kIsOptional<T>) {
      return of<typename T::value_type>(sign);
    } else if constexpr (api::kIsList<T>) {
      return {{"type", "array"}, {"items", of<typename T::value_type>(sign)}};
    } else if constexpr (api::kIsPair<T>) {
      return {{"type", "array"}, {"minItems", 2}, {"maxItems", 2}, {"items", {{"type", {"number", "null"}}}}};
    } else if constexpr (api::kIsEither<T>) {
      return {{"type", {"integer", "string"}}};
    } else if constexpr (api::kIsWord<T>) {
      return words<T>();
    } else {
      return plain<T>(sign);
    }
  }

  template <typename Enum>
  static OrderedJson words_json(Enum value) {
    OrderedJson list = OrderedJson::array();
    for (const std::string_view word : words_of(value)) list.push_back(word);
    return {{"enum", list}};
  }
  template <typename T>
  static OrderedJson words() {
    return
        []<typename Enum>(std::type_identity<api::Word<Enum>>) { return words_json(Enum{}); }(std::type_identity<T>{});
  }

  template <typename T>
  static OrderedJson plain(api::Sign sign) {
    if constexpr (std::same_as<T, std::string>) return {{"type", "string"}};
    if constexpr (std::same_as<T, bool>) return {{"type", "boolean"}};
    OrderedJson schema = {{"type", std::integral<T> ? "integer" : "number"}};
    if (sign == api::Sign::kNotNegative) schema["minimum"] = 0;
    return schema;
  }

  static OrderedJson or_null(OrderedJson schema) {
    if (schema.empty()) return schema;  // anything
    if (!schema.contains("type")) return {{"anyOf", {schema, {{"type", "null"}}}}};
    schema["type"] = {schema["type"], "null"};
    return schema;
  }

  OrderedJson definitions_ = OrderedJson::object();
};

}  // namespace trimtab::test
