#include "api/request_body.hpp"

#include "schema/json_nesting.hpp"

namespace trimtab::coordinator {

Result<nlohmann::json> parse_body(const std::string& body, const std::string& needed) {
  if (!json_nested_within(body)) return bad_input("the body is " + json_nesting_refusal());
  auto document = nlohmann::json::parse(body, nullptr, false);
  if (!document.is_object()) return bad_input(needed);
  return document;
}

}  // namespace trimtab::coordinator
