#include "processes/printable_text.hpp"

#include <fstream>
#include <iterator>

namespace trimtab::agent {

std::string last_lines(std::string_view output, std::size_t most) {
  if (output.size() > most) {
    output = output.substr(output.size() - most);
    const auto newline = output.find('\n');
    if (newline != std::string_view::npos && newline + 1 < output.size()) output = output.substr(newline + 1);
  }
  std::string text;
  while (!output.empty()) {
    const auto end = output.find('\n');
    text += printable_text(output.substr(0, end)) + "\n";
    output = end == std::string_view::npos ? "" : output.substr(end + 1);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string last_lines_of_file(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(file.tellg());
  const std::size_t wanted = std::min(size, most + 1);
  file.seekg(static_cast<std::streamoff>(size - wanted));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return last_lines(bytes, most);
}

}  // namespace trimtab::agent
