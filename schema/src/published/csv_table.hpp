#pragma once

// A table of comma-separated values with a header line, read row by row with typed fields. The first field that is not
// as expected becomes the error, "FILE:LINE: COLUMN: expected ..., found ..."; later reads give harmless defaults.
// Columns are found by name, so their order is free and further ones are ignored. No quoting: a cell holds no comma.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>

#include "published/text_file.hpp"

namespace trimtab::published {

class CsvRow {
 public:
  // REQUIRES for all: `column` is one that the table is read for.
  [[nodiscard]] std::string_view cell(std::string_view column) const;
  [[nodiscard]] bool empty(std::string_view column) const { return cell(column).empty(); }
  // Letters, digits, '_', '-' and '.' only, not empty, no leading '.': fit for a file name.
  [[nodiscard]] std::string name(std::string_view column);
  [[nodiscard]] std::int64_t integer(std::string_view column, std::int64_t low, std::int64_t high);
  [[nodiscard]] std::int32_t integer32(std::string_view column, std::int32_t low);
  // Finite and between the two.
  [[nodiscard]] double number(std::string_view column, double low, double high);
  // The index of the cell in `choices`.
  [[nodiscard]] std::size_t choice(std::string_view column, std::initializer_list<std::string_view> choices);
  [[nodiscard]] bool flag(std::string_view column) { return choice(column, {"0", "1"}) == 1; }

  // "FILE:LINE: COLUMN: expected EXPECTED, found the cell".
  void fail(std::string_view column, const std::string& expected);
  // "FILE:LINE: MESSAGE".
  void refuse(const std::string& message);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  using Columns = std::vector<std::string_view>;
  friend Status each_row(const TextFile& file, const Columns& columns, const std::function<void(CsvRow&)>& visit);
  CsvRow(const std::string& path, const Columns& columns) : path_(path), columns_(columns) {}
  [[nodiscard]] Status find_columns(const Columns& header, std::string_view line);

  const std::string& path_;
  const Columns& columns_;
  std::vector<std::size_t> places_;  // of columns_, in a row
  std::vector<std::string_view> cells_;
  std::size_t line_ = 1;
  std::optional<Error> error_;
};

// Every row in order, until one fails. Refused: a header without one of the columns, a table without rows.
[[nodiscard]] Status each_row(const TextFile& file, const std::vector<std::string_view>& columns,
                              const std::function<void(CsvRow&)>& visit);
// The same of DIRECTORY/NAME, packed or not.
[[nodiscard]] Status each_row(const std::string& directory, const std::string& name,
                              const std::vector<std::string_view>& columns, const std::function<void(CsvRow&)>& visit);

// Refuses a second row of the same key.
template <typename Key>
class Once {
 public:
  void check(CsvRow& row, Key key) {
    const auto [first, fresh] = lines_.emplace(std::move(key), row.line());
    if (!fresh) row.refuse("the same row stands in line " + std::to_string(first->second));
  }

 private:
  std::map<Key, std::size_t> lines_;
};

}  // namespace trimtab::published
