#pragma once

// A table of comma-separated values with a header line, read row by row with typed fields. The first field that is not
// as expected becomes the error, "FILE:LINE: COLUMN: expected ..., found ..."; later reads give harmless defaults.
// Columns are found by name, so their order is free and further ones are ignored. No quoting: a cell holds no comma.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

class CsvTable;

class CsvRow {
 public:
  // REQUIRES for all: `column` is one that the table was opened with.
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

  // "FILE:LINE: COLUMN: expected EXPECTED, found the cell".
  void fail(std::string_view column, const std::string& expected);
  // "FILE:LINE: MESSAGE".
  void refuse(const std::string& message);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  friend class CsvTable;
  explicit CsvRow(const CsvTable& table) : table_(&table) {}

  const CsvTable* table_;
  std::vector<std::string_view> cells_;
  std::size_t line_ = 1;
  std::optional<Error> error_;
};

class CsvTable {
 public:
  // Checks the header against the columns that are needed.
  [[nodiscard]] static Result<CsvTable> open(TextFile file, std::vector<std::string_view> columns);

  // Every row in order, until one fails. A table without rows is refused.
  [[nodiscard]] Status each(const std::function<void(CsvRow&)>& visit) const;
  [[nodiscard]] const std::string& path() const { return file_.path; }

 private:
  friend class CsvRow;
  CsvTable(TextFile file, std::vector<std::string_view> columns)
      : file_(std::move(file)), columns_(std::move(columns)) {}
  [[nodiscard]] Status read_header(std::string_view line);
  [[nodiscard]] std::size_t place_of(std::string_view column) const;

  TextFile file_;
  std::vector<std::string_view> columns_;
  std::vector<std::size_t> places_;  // of columns_, in a row
  std::size_t width_ = 0;
};

}  // namespace trimtab::published
