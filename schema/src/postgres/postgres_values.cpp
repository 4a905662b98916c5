#include "postgres_values.hpp"

#include <bit>
#include <cstdint>

#include "base/check.hpp"

namespace trimtab {

namespace {

// Of pg_type.dat; they never change.
constexpr Oid kUnknown = 0;
constexpr Oid kBool = 16;
constexpr Oid kBytea = 17;
constexpr Oid kName = 19;
constexpr Oid kInt8 = 20;
constexpr Oid kInt2 = 21;
constexpr Oid kInt4 = 23;
constexpr Oid kText = 25;
constexpr Oid kFloat8 = 701;
constexpr Oid kVoid = 2278;
constexpr int kBinary = 1;

std::string big_endian(std::uint64_t number) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

std::uint64_t from_big_endian(const char* bytes, int length) {
  // The sign of a shorter integer goes on to the left.
  std::uint64_t number = (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
  for (int i = 0; i < length; ++i) number = (number << 8) | static_cast<unsigned char>(bytes[i]);
  return number;
}

struct Encoded {
  Oid type;
  std::string bytes;
};

Encoded encode(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return {kInt8, big_endian(static_cast<std::uint64_t>(*integer))};
  }
  if (const auto* real = std::get_if<double>(&value)) return {kFloat8, big_endian(std::bit_cast<std::uint64_t>(*real))};
  if (const auto* text = std::get_if<std::string>(&value)) return {kBytea, *text};
  return {kUnknown, ""};
}

Value value_of(const PGresult& result, int row, int column) {
  if (PQgetisnull(&result, row, column) != 0) return std::monostate{};
  const char* bytes = PQgetvalue(&result, row, column);
  const int length = PQgetlength(&result, row, column);
  switch (PQftype(&result, column)) {
    case kBool:
      return std::int64_t{bytes[0]};
    case kInt2:
    case kInt4:
    case kInt8:
      return static_cast<std::int64_t>(from_big_endian(bytes, length));
    case kFloat8:
      return std::bit_cast<double>(from_big_endian(bytes, length));
    case kBytea:
    case kName:
    case kText:
      return std::string(bytes, static_cast<std::size_t>(length));
    case kVoid:
      return std::monostate{};
    default:
      break;
  }
  TRIMTAB_ASSERT(false, "a statement asks for columns of integers, float8, bool, bytea or text");
  return std::monostate{};
}

}  // namespace

PostgresArguments::PostgresArguments(const Row& row) {
  bytes_.reserve(row.size());  // values_ points into it
  for (const Value& value : row) {
    Encoded encoded = encode(value);
    types_.push_back(encoded.type);
    bytes_.push_back(std::move(encoded.bytes));
    values_.push_back(encoded.type == kUnknown ? nullptr : bytes_.back().data());
    lengths_.push_back(static_cast<int>(bytes_.back().size()));
    formats_.push_back(kBinary);
  }
}

std::string PostgresArguments::signature() const {
  std::string text;
  for (const Oid type : types_) text += "/" + std::to_string(type);
  return text;
}

Rows rows_of(const PGresult& result) {
  Rows rows;
  const int columns = PQnfields(&result);
  for (int r = 0; r < PQntuples(&result); ++r) {
    Row& row = rows.emplace_back();
    for (int c = 0; c < columns; ++c) row.push_back(value_of(result, r, c));
  }
  return rows;
}

}  // namespace trimtab
