#include "store/row_checksum.hpp"

#include <sqlite3.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "schema/hash64.hpp"

namespace trimtab {

namespace {

void append_number(std::string& bytes, std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(number >> shift);
}

void append_integer(std::string& bytes, std::int64_t value) {
  bytes += 'i';
  append_number(bytes, static_cast<std::uint64_t>(value));
}

// Databases keep one zero and one NaN.
void append_real(std::string& bytes, double value) {
  const double kept = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value + 0.0;
  bytes += 'r';
  append_number(bytes, std::bit_cast<std::uint64_t>(kept));
}

void append_text(std::string& bytes, std::string_view value) {
  bytes += 't';
  append_number(bytes, value.size());
  bytes += value;
}

// 0 stands for a row that has none.
std::int64_t checksum_of(const std::string& bytes) {
  const std::uint64_t hash = hash64(bytes);
  return std::bit_cast<std::int64_t>(hash == 0 ? 1 : hash);
}

void append(std::string& bytes, sqlite3_value* value) {
  switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER:
      return append_integer(bytes, sqlite3_value_int64(value));
    case SQLITE_FLOAT:
      return append_real(bytes, sqlite3_value_double(value));
    case SQLITE_NULL:
      bytes += 'n';
      return;
    default:
      const void* text = sqlite3_value_blob(value);
      const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
      append_text(bytes, {static_cast<const char*>(text), text == nullptr ? 0 : size});
  }
}

void checksum_function(sqlite3_context* context, int count, sqlite3_value** values) {
  std::string bytes;
  for (int i = 0; i < count; ++i) append(bytes, values[i]);
  sqlite3_result_int64(context, checksum_of(bytes));
}

}  // namespace

std::int64_t row_checksum(const Row& values) {
  std::string bytes;
  for (const Value& value : values) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      append_integer(bytes, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      append_real(bytes, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      append_text(bytes, *text);
    } else {
      bytes += 'n';
    }
  }
  return checksum_of(bytes);
}

Row with_checksum(Row values) {
  const std::int64_t checksum = row_checksum(values);
  values.emplace_back(checksum);
  return values;
}

void add_row_checksum(SQLite::Database& connection) {
  connection.createFunction("row_checksum", -1, true, nullptr, checksum_function, nullptr, nullptr, nullptr);
}

}  // namespace trimtab
