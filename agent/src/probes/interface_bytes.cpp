#include "probes/interface_bytes.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "ranks/rank_network.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kReceived = 0;  // of a line's numbers
constexpr std::size_t kSent = 8;

std::optional<InterfaceBytes> numbers_of(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::array<std::uint64_t, kSent + 1> numbers{};
  for (std::uint64_t& one : numbers) {
    if (!(words >> one)) return std::nullopt;
  }
  return InterfaceBytes{numbers[kReceived], numbers[kSent]};
}

}  // namespace

std::optional<InterfaceBytes> parse_interface_bytes(std::string_view text, std::string_view interface) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, colon) != interface) continue;
    return numbers_of(line.substr(colon + 1));
  }
  return std::nullopt;
}

InterfaceReading kernel_interface_bytes(const ProbeSocket& connection) {
  const std::string name = interface_with(connection.local_address());
  const bool within = !interface_with(connection.peer_address()).empty();
  if (name.empty() || within) return [] { return std::optional<InterfaceBytes>(); };
  return [name] {
    std::ifstream file("/proc/thread-self/net/dev");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return parse_interface_bytes(text, name);
  };
}

}  // namespace trimtab::agent
