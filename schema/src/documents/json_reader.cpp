#include "documents/json_reader.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab {

namespace {

// No name of ours is longer; one of somebody else's may fill a document.
constexpr std::size_t kMaxNameBytes = 100;

// What stands there, short enough for a message.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array of " + std::to_string(value.size());
  return value.is_string() ? quoted_text(value.get_ref<const std::string&>()) : dump(value);
}

// The path of `wanted` under `node`, found by address: paths are needed for errors only, so readers do not carry them.
bool find_path(const Json& node, const Json* wanted, std::string& path) {
  if (&node == wanted) return true;
  const std::size_t length = path.size();
  for (auto item = node.begin(); node.is_structured() && item != node.end(); ++item) {
    if (node.is_object()) {
      path += (path.empty() ? "" : ".") + item.key().substr(0, kMaxNameBytes);
    } else {
      path += "[" + std::to_string(item - node.begin()) + "]";
    }
    if (find_path(*item, wanted, path)) return true;
    path.resize(length);
  }
  return false;
}

std::string version_of(std::string_view schema) {
  const std::size_t slash = schema.rfind('/');
  return std::string(slash == std::string_view::npos ? schema : schema.substr(slash + 1, 20));
}

std::string kind_of(std::string_view schema) {
  return std::string(schema.substr(0, schema.rfind('/')));
}

void check_schema(const JsonReader& root, std::string_view expected) {
  const JsonReader field = root.at("schema");
  const std::string wanted = quoted_text(expected);
  if (!field.is_text()) return field.fail(wanted);
  const std::string found = field.text();
  if (found == expected) return;
  if (kind_of(found) != kind_of(expected)) {
    return field.refuse("expected " + wanted + ", found " + quoted_text(found) + ": this is another kind of document");
  }
  const std::string version = version_of(found);
  field.refuse("this release reads version " + version_of(expected) + " (" + wanted +
               "), but the document has version " + version + " (" + quoted_text(found) +
               "). Use a release that knows version " + version + ", or write the document as version " +
               version_of(expected));
}

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view source, std::string_view schema) {
  JsonDocument document;
  document.source_ = source;
  TRIMTAB_TRY(document.root_, parse_json_text(text, source));
  const JsonReader root = document.root();
  if (!document.root_.is_object()) root.fail("an object");
  if (!document.failed() && !schema.empty()) check_schema(root, schema);
  TRIMTAB_TRY_STATUS(document.status());
  return document;
}

JsonReader JsonDocument::root() {
  return {this, &root_, nullptr, ""};
}

void JsonDocument::fail(const std::string& path, const std::string& message) {
  if (error_) return;
  std::string text;
  for (const std::string& part : {source_, path}) {
    if (!part.empty()) text += part + ": ";
  }
  error_ = bad_input(text + message);
}

JsonReader JsonReader::at(std::string_view name) const {
  if (!present() || !check_object()) return {document_, nullptr, value_, name};
  const auto found = value_->find(name);
  const bool missing = found == value_->end() || found->is_null();
  return {document_, missing ? nullptr : &*found, value_, name};
}

bool JsonReader::is_null() const {
  if (present()) return value_->is_null();
  return parent_ != nullptr && parent_->is_object() && parent_->contains(name_);
}

std::string JsonReader::text() const {
  if (is_text()) return value_->get<std::string>();
  fail("a text");
  return {};
}

std::int64_t JsonReader::integer(const IntegerLimits& limits) const {
  // A float stands for an integer where it is one exactly: some writers know no other number.
  constexpr double kExactFloat = 9007199254740992.0;
  if (present() && value_->is_number_unsigned()) {
    const auto value = value_->get<std::uint64_t>();
    if (value <= static_cast<std::uint64_t>(limits.high) && limits.low <= static_cast<std::int64_t>(value)) {
      return static_cast<std::int64_t>(value);
    }
  } else if (present() && value_->is_number_integer()) {
    const auto value = value_->get<std::int64_t>();
    if (limits.low <= value && value <= limits.high) return value;
  } else if (present() && value_->is_number_float()) {
    const auto value = value_->get<double>();
    const bool whole = std::abs(value) <= kExactFloat && std::floor(value) == value;
    const std::int64_t rounded = whole ? static_cast<std::int64_t>(value) : 0;
    if (whole && limits.low <= rounded && rounded <= limits.high) return rounded;
  }
  fail(limits.name);
  return limits.low;
}

std::int64_t JsonReader::integer_or(std::int64_t otherwise, const IntegerLimits& limits) const {
  return present() ? integer(limits) : otherwise;
}

std::int32_t JsonReader::integer32(const IntegerLimits& limits) const {
  return static_cast<std::int32_t>(integer(limits));
}

std::int32_t JsonReader::integer32_or(std::int32_t otherwise, const IntegerLimits& limits) const {
  return present() ? integer32(limits) : otherwise;
}

double JsonReader::number() const {
  if (present() && value_->is_number()) {
    const auto value = value_->get<double>();
    if (std::isfinite(value) && value >= 0) return value;
  }
  fail("a number of at least 0");
  return 0;
}

double JsonReader::number_or(double otherwise) const {
  return present() ? number() : otherwise;
}

double JsonReader::signed_number_or(double otherwise) const {
  if (!present()) return otherwise;
  if (value_->is_number() && std::isfinite(value_->get<double>())) return value_->get<double>();
  fail("a number");
  return otherwise;
}

bool JsonReader::flag_or(bool otherwise) const {
  if (!present()) return otherwise;
  if (value_->is_boolean()) return value_->get<bool>();
  fail("true or false");
  return otherwise;
}

std::size_t JsonReader::choice(const std::string_view* names, std::size_t count) const {
  const auto* end = names + count;
  const auto* found = is_text() ? std::find(names, end, value_->get_ref<const std::string&>()) : end;
  if (found != end) return static_cast<std::size_t>(found - names);
  std::string expected;
  for (const auto* name = names; name != end; ++name) {
    expected += (name == names ? "" : name + 1 == end ? " or " : ", ") + ("\"" + std::string(*name) + "\"");
  }
  fail(expected);
  return 0;
}

void JsonReader::each(const std::function<void(JsonReader)>& visit) const {
  if (!present() || failed()) return;
  if (!value_->is_array()) return fail("an array");
  for (const Json& item : *value_) visit({document_, &item, value_, ""});
}

void JsonReader::each_required(const std::function<void(JsonReader)>& visit) const {
  if (!present() || !value_->is_array() || value_->empty()) return fail("an array of at least one");
  each(visit);
}

void JsonReader::each_member(const std::function<void(const std::string&, JsonReader)>& visit) const {
  if (!present() || failed() || !check_object()) return;
  for (const auto& [name, item] : value_->items()) visit(name, {document_, &item, value_, name});
}

std::vector<std::string> JsonReader::texts() const {
  std::vector<std::string> result;
  each([&](const JsonReader& item) { result.push_back(item.text()); });
  return result;
}

bool JsonReader::is_tuple(std::size_t count, const char* expected) const {
  if (present() && value_->is_array() && value_->size() == count) return true;
  fail(expected);
  return false;
}

JsonReader JsonReader::element(std::size_t index) const {
  return {document_, &(*value_)[index], value_, ""};
}

void JsonReader::fail(const std::string& expected) const {
  refuse("expected " + expected + ", found " + (present() ? shown(*value_) : is_null() ? "null" : "nothing"));
}

void JsonReader::refuse(const std::string& message) const {
  if (!failed()) document_->fail(path(), message);
}

bool JsonReader::check_object() const {
  if (!present() || value_->is_object()) return true;
  fail("an object");
  return false;
}

std::string JsonReader::path() const {
  std::string path;
  if (present()) {
    find_path(document_->root_, value_, path);
    return path;
  }
  if (parent_ != nullptr) find_path(document_->root_, parent_, path);
  return path.empty() ? std::string(name_) : path + "." + std::string(name_);
}

}  // namespace trimtab
