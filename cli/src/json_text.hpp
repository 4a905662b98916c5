#pragma once

// For .cpp files alone, as it names the JSON library. Paths and names need not be UTF-8; their JSON must be.

#include <nlohmann/json.hpp>
#include <string>

namespace trimtab::cli {

[[nodiscard]] inline std::string json_text(const nlohmann::json& document, int indent = -1) {
  return document.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace trimtab::cli
