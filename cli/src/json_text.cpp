#include "json_text.hpp"

#include "schema/json_nesting.hpp"

namespace trimtab::cli {

Result<nlohmann::json> parse_json(std::string_view text) {
  if (!json_nested_within(text)) return bad_input(json_nesting_refusal());
  auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return bad_input("no JSON");
  return document;
}

}  // namespace trimtab::cli
