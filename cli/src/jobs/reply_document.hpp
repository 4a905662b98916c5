#pragma once

// A coordinator's answer as JSON. It comes from a network: whatever it is, the one who reads it gets an error that can
// be shown.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace trimtab::cli {

// The tree; its exceptions must be caught. An error for what is no JSON or nested too deeply.
[[nodiscard]] Result<nlohmann::json> parse_reply(std::string_view text);

[[nodiscard]] Error not_understood(const std::string& why);

// What `body` makes of the document. The one place where the JSON library's exceptions end.
template <typename Body>
auto reading(std::string_view text, Body body) -> Result<decltype(body(nlohmann::json()))> {
  TRIMTAB_TRY(const nlohmann::json document, parse_reply(text));
  try {
    return body(document);
  } catch (const nlohmann::json::exception& failure) {
    return not_understood(failure.what());
  }
}

}  // namespace trimtab::cli
