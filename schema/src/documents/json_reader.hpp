#pragma once

// Reads a document's fields; the first field that is not as expected becomes the error, with its JSON path. After a
// failure every read gives a harmless default, so that a parser reads straight through and asks for the error once, at
// the end. Readers are small values that point into their JsonDocument, which must outlive them.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "documents/json_document.hpp"

namespace trimtab {

// An interval of integers and its name in messages: "a positive integer".
struct IntegerLimits {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  const char* name = "an integer of at least 0";
};
inline constexpr IntegerLimits kPositive32{1, std::numeric_limits<std::int32_t>::max(), "a positive integer"};
inline constexpr IntegerLimits kNonNegative32{0, std::numeric_limits<std::int32_t>::max(), "an integer of at least 0"};
inline constexpr IntegerLimits kNonNegative{};

class JsonReader;

class JsonDocument {
 public:
  // `schema` is the "schema" value that the root must have ("trimtab.plan/1"); empty where the document has none.
  [[nodiscard]] static Result<JsonDocument> parse(std::string_view text, std::string_view source,
                                                  std::string_view schema);
  [[nodiscard]] JsonReader root();
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  // The first failure, ok when there was none.
  [[nodiscard]] Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  friend class JsonReader;
  JsonDocument() = default;
  void fail(const std::string& path, const std::string& message);

  Json root_;
  std::string source_;
  std::optional<Error> error_;
};

class JsonReader {
 public:
  // The member of this object; a missing one (or null) is a reader that is not present().
  [[nodiscard]] JsonReader at(std::string_view name) const;
  [[nodiscard]] bool present() const { return value_ != nullptr; }
  [[nodiscard]] bool is_text() const { return present() && value_->is_string(); }
  [[nodiscard]] bool is_null() const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t integer(const IntegerLimits& limits) const;
  [[nodiscard]] std::int64_t integer_or(std::int64_t otherwise, const IntegerLimits& limits) const;
  [[nodiscard]] std::int32_t integer32(const IntegerLimits& limits) const;
  [[nodiscard]] std::int32_t integer32_or(std::int32_t otherwise, const IntegerLimits& limits) const;
  // A finite number of at least 0.
  [[nodiscard]] double number() const;
  [[nodiscard]] double number_or(double otherwise) const;
  [[nodiscard]] double signed_number_or(double otherwise) const;
  [[nodiscard]] bool flag_or(bool otherwise) const;
  [[nodiscard]] const Json& json() const { return *value_; }

  // The index in `names` of this text; fails by listing them.
  template <std::size_t N>
  [[nodiscard]] std::size_t choice_or(std::size_t otherwise, const std::string_view (&names)[N]) const {
    return present() ? choice(names, N) : otherwise;
  }

  // Every element in order; a missing array has none. `required` fails on a missing or empty one.
  void each(const std::function<void(JsonReader)>& visit) const;
  void each_required(const std::function<void(JsonReader)>& visit) const;
  void each_member(const std::function<void(const std::string&, JsonReader)>& visit) const;
  [[nodiscard]] std::vector<std::string> texts() const;
  // Fails unless this is an array of exactly `count`; elements by index.
  [[nodiscard]] bool is_tuple(std::size_t count, const char* expected) const;
  [[nodiscard]] JsonReader element(std::size_t index) const;
  [[nodiscard]] std::size_t size() const { return present() ? value_->size() : 0; }

  // "PATH: expected EXPECTED, found what is there".
  void fail(const std::string& expected) const;
  // "PATH: message".
  void refuse(const std::string& message) const;
  [[nodiscard]] bool failed() const { return document_->failed(); }
  // Fails unless this is an object (or missing).
  bool check_object() const;

 private:
  friend class JsonDocument;
  JsonReader(JsonDocument* document, const Json* value, const Json* parent, std::string_view name)
      : document_(document), value_(value), parent_(parent), name_(name) {}
  [[nodiscard]] std::size_t choice(const std::string_view* names, std::size_t count) const;
  [[nodiscard]] std::string path() const;

  JsonDocument* document_;
  const Json* value_;   // null when missing
  const Json* parent_;  // of a missing value: the object that lacks it
  std::string_view name_;
};

}  // namespace trimtab
