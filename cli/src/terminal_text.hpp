#pragma once

// Text for people at a terminal: tables with columns padded to their widest cell, and what may not reach it. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_parts.hpp"

namespace trimtab::cli {

// ">step": of numbers, which are aligned to the right.
struct Column {
  Column(const char* text)
      : title(*text == '>' ? text + 1 : text), right(*text == '>') {}  // NOLINT: implicit by design
  std::string title;
  bool right;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns, more than one. A name with a newline makes no further line: cells, and the line
  // below, are shown printable().
  void add(std::vector<std::string> cells);
  // Text across all columns.
  void add_line(std::string_view text);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // One line per row, the title first; `indent` spaces in front of each.
  [[nodiscard]] std::string str(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Code points, which is what a terminal shows of the text that we print.
[[nodiscard]] std::size_t display_width(std::string_view text);
// With as many spaces as it takes, in front where it is to stand at the right.
[[nodiscard]] std::string padded(const std::string& text, std::size_t width, bool right);
// At most so many of them.
[[nodiscard]] std::string cut(const std::string& text, std::size_t width);
// `replacement` in place of each control character but those `kept` (C0, DEL and C1, a C1 byte that no character has
// too) and of each mark of writing direction (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
[[nodiscard]] std::string without_controls(std::string_view text, std::string_view kept, std::string_view replacement);
// Bytes at the end that are the first of a character whose others may follow.
[[nodiscard]] std::size_t begun_character(std::string_view text);
// These (of a job's own text) cannot reach the terminal: a space stands for each.
[[nodiscard]] std::string printable(std::string_view text);
// The same of text of several lines, which stay lines: those after the first stand two spaces in.
[[nodiscard]] std::string printable_lines(std::string_view text);

// "2026-03-01 14:05:09Z", of ns since 1970.
[[nodiscard]] std::string utc(std::int64_t wall_ns);

}  // namespace trimtab::cli
