#include "schema/json_nesting.hpp"

namespace trimtab {

bool json_nested_within(std::string_view json, std::size_t levels) {
  std::size_t open = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char byte = json[i];
    if (in_text) {
      if (byte == '\\') ++i;
      if (byte == '"') in_text = false;
    } else if (byte == '"') {
      in_text = true;
    } else if (byte == '[' || byte == '{') {
      if (++open > levels) return false;
    } else if ((byte == ']' || byte == '}') && open > 0) {
      --open;
    }
  }
  return true;
}

std::string json_nesting_refusal() {
  return "nested deeper than " + std::to_string(kMaxJsonLevels) + " levels";
}

}  // namespace trimtab
