#pragma once

// The rows of a file that was too large to be checked when it was opened, a few at a time while it is in use. It finds
// nothing by itself: whoever reads for it counts the rows without their checksum. One thread.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "schema/database.hpp"

namespace trimtab {

class ContentCheck {
 public:
  // Database's functions of these names, of statements.
  struct Reader {
    std::function<Result<Rows>(const std::string& sql, const Row& arguments)> query;
    std::function<Result<CheckedRows>(const std::string& sql, const Row& arguments)> query_checked;
  };
  explicit ContentCheck(std::vector<CheckedTable> tables) : tables_(std::move(tables)) {}

  // Reads on for about so long, and stops where the file cannot be read any further.
  void step(const Reader& reader, const Clock& clock, Nanoseconds time);
  [[nodiscard]] bool done() const { return table_ >= tables_.size(); }
  [[nodiscard]] std::uint64_t rows() const { return rows_; }

 private:
  [[nodiscard]] Status read_some(const Reader& reader);
  [[nodiscard]] Status find_key(const Reader& reader);

  std::vector<CheckedTable> tables_;
  std::size_t table_ = 0;
  std::vector<std::string> key_;  // columns of the table's primary key; empty: not looked up yet
  Row after_;                     // the key of the last row that was read; empty: none was
  std::int64_t at_once_ = 1;
  std::uint64_t rows_ = 0;
};

}  // namespace trimtab
