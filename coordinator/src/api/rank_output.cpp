#include "api/rank_output.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace trimtab::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// As agents write it (agent/src/commands/job_programs.cpp, schema/src/documents/printed_model.cpp), and as a note of a
// crash begins (tuning/launch/launch.cpp).
constexpr std::array<std::string_view, 2> kOutputs = {"; its last output: ", "; the output begins with "};
constexpr std::string_view kLastLines = "the last lines of rank ";
constexpr std::string_view kForOperators = "(told to those who have the role operate)";

void shorten(std::string& text) {
  for (const std::string_view output : kOutputs) {
    const auto at = text.find(output);
    if (at == std::string::npos) continue;
    text.resize(at + output.size());
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
  const auto has = [&](std::string_view words) { return document.find(words) != std::string::npos; };
  if (std::ranges::none_of(kOutputs, has) && !has(kLastLines)) return document;
  Json parsed = Json::parse(document, nullptr, false);
  if (parsed.is_discarded()) return document;
  shorten(parsed);
  return parsed.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trimtab::coordinator
