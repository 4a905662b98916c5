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

std::string printable(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; }, ' ');
  return result;
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
  rows_.push_back(std::move(cells));
}

void TextTable::add_line(std::string text) {
  TRIMTAB_ASSERT(columns_.size() > 1, "a line across all columns is told from a row of one");
  rows_.push_back({std::move(text)});
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
