#include "api/document_reader.hpp"

#include "schema/json_nesting.hpp"

namespace trimtab::api {

std::string Place::path() const {
  if (within == nullptr) return "$";
  return within->path() + (name.empty() ? "[" + std::to_string(index) + "]" : "." + std::string(name));
}

void DocumentReader::fail(const Place& place, const std::string& message) {
  if (!failure_) failure_ = place.path() + ": " + message;
}

bool DocumentReader::is(bool holds, const Json& json, const Place& place, const char* expected) {
  if (!holds) fail(place, std::string("expected ") + expected + ", but found " + json.type_name());
  return holds;
}

Result<Json> parse_tree(std::string_view text) {
  if (!json_nested_within(text)) return bad_input(json_nesting_refusal());
  Json tree = Json::parse(text, nullptr, false);
  if (tree.is_discarded()) return bad_input("no JSON");
  return tree;
}

}  // namespace trimtab::api
