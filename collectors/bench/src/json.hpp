#pragma once

// A JSON text as a tree, and text as a JSON string: what the benchmarks read (requests, model.json) and print. The
// program is built where no other library is, so this is its own. Values are read only; any thread.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::bench {

class Json {
 public:
  static constexpr std::size_t kMaxDepth = 64;
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;

  // The whole text as one value. The error has `source`, the byte and what was expected there.
  [[nodiscard]] static Result<Json> parse(std::string_view text, std::string_view source);

  Json() = default;
  explicit Json(bool value) : kind_(Kind::kFlag), integer_(value ? 1 : 0) {}
  explicit Json(double value) : kind_(Kind::kReal), real_(value) {}
  explicit Json(std::int64_t value) : kind_(Kind::kInteger), integer_(value) {}
  explicit Json(std::string value) : kind_(Kind::kText), text_(std::move(value)) {}
  explicit Json(Array value) : kind_(Kind::kArray), elements_(std::move(value)) {}
  explicit Json(Object value) : kind_(Kind::kObject), members_(std::move(value)) {}

  // The member, or null where this is no object or has none of that name.
  [[nodiscard]] const Json& at(std::string_view name) const;
  [[nodiscard]] bool null() const { return kind_ == Kind::kNull; }
  [[nodiscard]] const Object* object() const { return kind_ == Kind::kObject ? &members_ : nullptr; }
  [[nodiscard]] const Array* array() const { return kind_ == Kind::kArray ? &elements_ : nullptr; }
  [[nodiscard]] const std::string* text() const { return kind_ == Kind::kText ? &text_ : nullptr; }
  // A number without fraction that fits; "1.0" is none.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] std::optional<double> number() const;

 private:
  enum class Kind : std::uint8_t { kNull, kFlag, kInteger, kReal, kText, kArray, kObject };

  Kind kind_ = Kind::kNull;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  Array elements_;
  Object members_;
};

// In quotes and escaped; bytes that are no UTF-8 become '?'.
[[nodiscard]] std::string json_string(std::string_view text);
// Whole numbers, each the nearest.
[[nodiscard]] std::string json_list(const std::vector<double>& numbers);

// Makes the text of an object, member by member.
class JsonObject {
 public:
  // `value` is JSON itself.
  JsonObject& raw(std::string_view name, std::string_view value);
  JsonObject& add(std::string_view name, std::string_view text) { return raw(name, json_string(text)); }
  template <std::integral Number>
  JsonObject& add(std::string_view name, Number number) {
    return raw(name, std::to_string(number));
  }
  [[nodiscard]] std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace trimtab::bench
