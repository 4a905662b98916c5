#include "reply_document.hpp"

#include "schema/json_nesting.hpp"

namespace trimtab::cli {

Error not_understood(const std::string& why) {
  return unavailable("the coordinator's answer cannot be understood: " + why);
}

Result<nlohmann::json> parse_reply(std::string_view text) {
  if (!json_nested_within(text)) return not_understood("it is " + json_nesting_refusal());
  auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return not_understood("it is no JSON");
  return document;
}

}  // namespace trimtab::cli
