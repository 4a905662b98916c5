#include "api/rank_output.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schema/api/printed_text.hpp"

namespace trimtab::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// As a note of a crash begins (tuning/launch/launch.cpp).
constexpr std::string_view kLastLines = "the last lines of rank ";
constexpr std::string_view kForOperators = "(told to those who have the role operate)";

void shorten(std::string& text) {
  if (const auto printed = api::printed_in(text)) {
    text.resize(printed->begin);
    text += kForOperators;
  }
  if (text.starts_with(kLastLines)) {
    text.resize(std::min(text.find('\n'), text.size()));
    text += " " + std::string(kForOperators);
  }
}

void shorten(Json& value) {
  if (value.is_string()) return shorten(value.get_ref<std::string&>());
  if (!value.is_structured()) return;
  for (Json& inside : value) shorten(inside);
}

}  // namespace

std::string without_rank_output(std::string document) {
  if (!api::printed_in(document) && document.find(kLastLines) == std::string::npos) return document;
  Json parsed = Json::parse(document, nullptr, false);
  if (parsed.is_discarded()) return document;
  shorten(parsed);
  return parsed.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trimtab::coordinator
