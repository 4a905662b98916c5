#include "trust/socket_table.hpp"

#include <charconv>
#include <cstring>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"

namespace trimtab::net {

namespace {

constexpr std::size_t kWordDigits = 8;
// Columns of a row; what stands between them are states, queues and timers.
constexpr std::size_t kLocal = 1;
constexpr std::size_t kRemote = 2;
constexpr std::size_t kUser = 7;
constexpr std::size_t kInode = 9;

template <typename Number>
std::optional<Number> parse_hex(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return failure == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// The kernel prints an address' bytes as words of this machine, and the port as a number.
std::optional<SocketEnd> parse_end(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != kWordDigits && colon != 4 * kWordDigits) return std::nullopt;
  const auto port = parse_hex<std::uint16_t>(text.substr(colon + 1));
  if (!port) return std::nullopt;
  SocketEnd end{{}, *port};
  std::size_t at = end.address.size() - colon / 2;
  if (at > 0) end.address[at - 1] = end.address[at - 2] = 0xFF;
  for (std::size_t digit = 0; digit < colon; digit += kWordDigits, at += sizeof(std::uint32_t)) {
    const auto word = parse_hex<std::uint32_t>(text.substr(digit, kWordDigits));
    if (!word) return std::nullopt;
    std::memcpy(end.address.data() + at, &*word, sizeof(*word));
  }
  return end;
}

}  // namespace

std::optional<uid_t> socket_user(std::string_view table, const SocketEnd& local, const SocketEnd& remote) {
  while (!table.empty()) {
    const auto columns = blank_parted(take_line(table));
    if (columns.size() <= kInode || columns[kInode] == "0") continue;
    if (parse_end(columns[kLocal]) != local || parse_end(columns[kRemote]) != remote) continue;
    if (const auto user = parse_number<uid_t>(columns[kUser])) return user;
  }
  return std::nullopt;
}

}  // namespace trimtab::net
