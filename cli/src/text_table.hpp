#pragma once

// A table for a terminal: columns padded to their widest cell. Pure.

#include <string>
#include <string_view>
#include <vector>

namespace trimtab::cli {

struct Column {
  std::string title;
  bool right = false;  // numbers are aligned to the right
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns, more than one.
  void add(std::vector<std::string> cells);
  // Text across all columns.
  void add_line(std::string text);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // One line per row, the title first; `indent` spaces in front of each.
  [[nodiscard]] std::string str(std::size_t indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Code points, which is what a terminal shows of the text that we print.
[[nodiscard]] std::size_t display_width(std::string_view text);

}  // namespace trimtab::cli
