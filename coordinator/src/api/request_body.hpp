#pragma once

// For .cpp files alone, as it names the JSON library.

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"

namespace trimtab::coordinator {

// The object that a request's body must be; `needed` is the error where it is none.
[[nodiscard]] Result<nlohmann::json> parse_body(const std::string& body, const std::string& needed);

}  // namespace trimtab::coordinator
