#include "published/csv_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

void split(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

std::string decimal(double value) {
  return value == std::floor(value) ? std::to_string(static_cast<std::int64_t>(value)) : std::to_string(value);
}

}  // namespace

std::string_view CsvRow::cell(std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  TRIMTAB_ASSERT(found != columns_.end(), "only columns that the table is read for are read");
  return cells_[places_[static_cast<std::size_t>(found - columns_.begin())]];
}

void CsvRow::refuse(const std::string& message) {
  if (!error_) error_ = bad_input(path_ + ":" + std::to_string(line_) + ": " + message);
}

void CsvRow::fail(std::string_view column, const std::string& expected) {
  refuse(std::string(column) + ": expected " + expected + ", found " +
         (empty(column) ? "nothing" : quoted_text(cell(column))));
}

std::string CsvRow::name(std::string_view column) {
  if (!fit_for_a_file_name(cell(column))) fail(column, "a name of letters, digits, '_', '-' and '.'");
  return std::string(cell(column));
}

std::int64_t CsvRow::integer(std::string_view column, std::int64_t low, std::int64_t high) {
  const auto value = parse_number<std::int64_t>(cell(column));
  if (value && *value >= low && *value <= high) return *value;
  fail(column, "a whole number between " + std::to_string(low) + " and " + std::to_string(high));
  return low;
}

std::int32_t CsvRow::integer32(std::string_view column, std::int32_t low) {
  return static_cast<std::int32_t>(integer(column, low, std::numeric_limits<std::int32_t>::max()));
}

double CsvRow::number(std::string_view column, double low, double high) {
  const auto value = parse_number<double>(cell(column));
  if (value && std::isfinite(*value) && *value >= low && *value <= high) return *value;
  fail(column, "a number between " + decimal(low) + " and " + decimal(high));
  return low;
}

std::size_t CsvRow::choice(std::string_view column, std::initializer_list<std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), cell(column));
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  fail(column, "one of " + joined(choices));
  return 0;
}

Status CsvRow::find_columns(const Columns& header, std::string_view line) {
  Columns missing;
  for (const std::string_view column : columns_) {
    const auto found = std::ranges::find(header, column);
    if (found == header.end()) missing.push_back(column);
    places_.push_back(static_cast<std::size_t>(found - header.begin()));
    if (std::ranges::count(header, column) > 1) {
      return bad_input(path_ + ":1: the column " + std::string(column) + " occurs twice");
    }
  }
  if (missing.empty()) return {};
  return bad_input(path_ + ":1: expected a header with the columns " + joined(columns_) + "; " + joined(missing) +
                   (missing.size() == 1 ? " is" : " are") + " missing, found " + quoted_text(line));
}

Status each_row(const TextFile& file, const std::vector<std::string_view>& columns,
                const std::function<void(CsvRow&)>& visit) {
  std::string_view rest = file.text;
  CsvRow row(file.path, columns);
  const std::string_view line = take_line(rest);
  split(line, row.cells_);
  const std::size_t width = row.cells_.size();
  TRIMTAB_TRY_STATUS(row.find_columns(row.cells_, line));
  if (rest.empty()) return bad_input(file.path + ":2: expected at least one row, found the end of the file");
  while (!rest.empty()) {
    split(take_line(rest), row.cells_);
    ++row.line_;
    if (row.cells_.size() == width) {
      visit(row);
    } else {
      row.refuse("expected " + std::to_string(width) + " cells, found " + std::to_string(row.cells_.size()));
    }
    if (row.error_) return *row.error_;
  }
  return {};
}

Status each_row(const std::string& directory, const std::string& name, const std::vector<std::string_view>& columns,
                const std::function<void(CsvRow&)>& visit) {
  TRIMTAB_TRY(const TextFile file, read_text_file(directory, name));
  return each_row(file, columns, visit);
}

}  // namespace trimtab::published
