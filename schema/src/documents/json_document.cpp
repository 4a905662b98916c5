#include "documents/json_document.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

#include "documents/look_of_bytes.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kLongestReason = 400;

std::string place(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t last_newline = before.rfind('\n');
  const std::size_t column = before.size() - (last_newline == std::string_view::npos ? 0 : last_newline + 1);
  return "line " + std::to_string(line) + ", column " + std::to_string(std::max<std::size_t>(column, 1));
}

// nlohmann's messages start with "[json.exception.parse_error.101] parse error at line 1, column 2: ".
std::string reason_of(const std::string& what) {
  const std::size_t bracket = what.find("] ");
  std::string reason = bracket == std::string::npos ? what : what.substr(bracket + 2);
  const std::size_t colon = reason.find(": ");
  if (reason.starts_with("parse error at") && colon != std::string::npos) reason = reason.substr(colon + 2);
  // It repeats what was read, which may be long, and no UTF-8; messages travel in documents and must be.
  if (reason.size() > kLongestReason) {
    reason = reason.substr(0, kLongestReason / 2) + "..." + reason.substr(reason.size() - kLongestReason / 2);
  }
  return valid_text(reason);
}

std::string repeated_field_refusal(const std::string& name) {
  return "the field " + quoted_text(name) + " occurs twice in one object; remove one of them";
}

// Keeps the names of the objects that are open, and nothing else.
class FieldNames final : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::string> failure;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return open_.size() <= kMaxJsonLevels;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    failure = repeated_field_refusal(name);
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::vector<std::set<std::string>> open_;
};

// Builds the tree; nlohmann's own builder knows no limit of depth and keeps the last of two equal members.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  Json root;
  std::string failure;

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Json& object = *open_.back();
    if (object.contains(name)) {
      failure = repeated_field_refusal(name);
      return false;
    }
    member_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    failure = place(text_, position) + ": " + reason_of(error.what());
    return false;
  }

 private:
  // Where the next value belongs: the root, the member just named, or a new element.
  Json& slot() {
    if (open_.empty()) return root;
    if (open_.back()->is_object()) return *member_;
    return open_.back()->emplace_back();
  }
  bool put(Json value) {
    slot() = std::move(value);
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaxJsonLevels) {
      failure = json_nesting_refusal();
      return false;
    }
    Json& place_of_value = slot();
    place_of_value = std::move(value);
    open_.push_back(&place_of_value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  std::vector<Json*> open_;  // stable: an element is complete before its array grows again
  Json* member_ = nullptr;
};

}  // namespace

Result<Json> parse_json_text(std::string_view text, std::string_view source) {
  const std::string prefix = source.empty() ? std::string() : std::string(source) + ": ";
  if (text.size() > kMaxDocumentBytes) {
    return bad_input(prefix + "a document has at most " + std::to_string(kMaxDocumentBytes) + " bytes, but this has " +
                     std::to_string(text.size()));
  }
  Builder builder(text);
  if (Json::sax_parse(text, &builder)) return std::move(builder.root);
  constexpr std::size_t kLooked = 4096;
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  const std::string look = blank || source.empty() ? "" : look_of_bytes(text.substr(0, kLooked), source);
  return bad_input(prefix + (look.empty() ? builder.failure : "expected JSON, found " + look));
}

std::string valid_text(std::string_view text) {
  return Json::parse(dump(Json(std::string(text)))).get<std::string>();
}

std::string quoted_text(std::string_view text) {
  constexpr std::size_t kMaxShownBytes = 60;
  const std::string shown = dump(Json(std::string(text.substr(0, kMaxShownBytes))));
  return text.size() > kMaxShownBytes ? shown + "..." : shown;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::optional<std::string> repeated_json_field(std::string_view json) {
  FieldNames names;
  (void)Json::sax_parse(json, &names);
  return names.failure;
}

bool json_nested_within(std::string_view json, std::size_t levels) {
  std::size_t open = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (in_text) {
      if (byte == '\\') ++i;
      if (byte == '"') in_text = false;
    } else if (byte == '"') {
      in_text = true;
    } else if (byte == '[' || byte == '{') {
      if (++open > levels) return false;
    } else if ((byte == ']' || byte == '}') && open > 0) {
      --open;
    }
  }
  return true;
}

std::string json_nesting_refusal() {
  return "nested deeper than " + std::to_string(kMaxJsonLevels) + " levels";
}

}  // namespace trimtab
