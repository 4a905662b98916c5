#include "agents/peer_text.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kLongestLine = 400;

// ASCII's, and those that UTF-8 writes as C2 80 to C2 9F.
bool is_control(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const bool after_c2 = at > 0 && static_cast<unsigned char>(text[at - 1]) == 0xC2;
  return byte < 0x20 || byte == 0x7F || (after_c2 && byte >= 0x80 && byte < 0xA0);
}

}  // namespace

bool is_printable(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text, i)) return false;
  }
  return true;
}

std::string printable(const std::string& text) {
  const std::string part = first_of(text, kLongestLine);
  std::string line;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (!is_control(part, i)) {
      line += part[i];
      continue;
    }
    if (continues_character(part[i])) line.pop_back();
    line += '?';
  }
  return line;
}

}  // namespace trimtab::coordinator
