#include "jobs/reply_document.hpp"

#include "json_text.hpp"

namespace trimtab::cli {

Error not_understood(const std::string& why) {
  return unavailable("the coordinator's answer cannot be understood: " + why);
}

Result<nlohmann::json> parse_reply(std::string_view text) {
  auto document = parse_json(text);
  if (!document.ok()) return not_understood("it is " + document.error().message);
  return document;
}

}  // namespace trimtab::cli
