#include "terminal_text.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/check.hpp"

namespace trimtab::cli {

namespace {

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// Bytes of a character that begins so; 1 where none does.
std::size_t size_after(char begin) {
  const auto first = static_cast<unsigned char>(begin);
  if (first < 0xC2 || first > 0xF4) return 1;
  return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
}

// Bytes of the first character; of what is no UTF-8, one.
std::size_t character_size(std::string_view text) {
  const std::size_t size = size_after(text.front());
  if (size > text.size()) return 1;
  return std::ranges::none_of(text.substr(1, size - 1), begins_character) ? size : 1;
}

bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || (byte(0) >= 0x7F && byte(0) < 0xA0);
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const bool embeds = byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F || (byte(2) >= 0xAA && byte(2) <= 0xAE));
  return embeds || (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::size_t used = display_width(text);
  const std::string space(width > used ? width - used : 0, ' ');
  return right ? space + text : text + space;
}

std::string cut(const std::string& text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && ++columns > width) return text.substr(0, i);
  }
  return text;
}

std::string without_controls(std::string_view text, std::string_view kept, std::string_view replacement) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view one = text.substr(0, size);
    const bool stays = !is_control(one) || (size == 1 && kept.find(one.front()) != std::string_view::npos);
    result += stays ? one : replacement;
    text.remove_prefix(size);
  }
  return result;
}

std::size_t begun_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min(text.size(), std::size_t{3}); ++back) {
    const char byte = text[text.size() - back];
    if (begins_character(byte)) return size_after(byte) > back ? back : 0;
  }
  return 0;
}

std::string printable(std::string_view text) {
  return without_controls(text, "", " ");
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (true) {
    const auto end = text.find('\n');
    result += printable(text.substr(0, end));
    if (end == std::string_view::npos) return result;
    result += "\n  ";
    text.remove_prefix(end + 1);
  }
}

void TextTable::add(std::vector<std::string> cells) {
  TRIMTAB_ASSERT(cells.size() == columns_.size(), "a row has one cell for each column");
  std::ranges::transform(cells, cells.begin(), [](const std::string& cell) { return printable(cell); });
  rows_.push_back(std::move(cells));
}

void TextTable::add_line(std::string_view text) {
  TRIMTAB_ASSERT(columns_.size() > 1, "a line across all columns is told from a row of one");
  rows_.push_back({printable(text)});
}

std::string TextTable::str(std::size_t indent) const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines.front().push_back(column.title);
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    if (line.size() < columns_.size()) continue;
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row(indent, ' ');
    for (std::size_t i = 0; i < line.size(); ++i)
      row += (i == 0 ? "" : "  ") + padded(line[i], widths[i], columns_[i].right);
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

std::string utc(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%SZ", &parts)};
}

}  // namespace trimtab::cli
