#pragma once

// Values in libpq's binary format, exact both ways: integers as int8, numbers as float8, texts as bytea.

#include <libpq-fe.h>

#include <string>
#include <vector>

#include "schema/database.hpp"

namespace trimtab {

// One statement's arguments as libpq takes them. Refers to nothing of the row it was made from.
class PostgresArguments {
 public:
  explicit PostgresArguments(const Row& row);
  [[nodiscard]] int count() const { return static_cast<int>(types_.size()); }
  [[nodiscard]] const Oid* types() const { return types_.data(); }
  [[nodiscard]] const char* const* values() const { return values_.data(); }
  [[nodiscard]] const int* lengths() const { return lengths_.data(); }
  [[nodiscard]] const int* formats() const { return formats_.data(); }
  // Tells statements apart that differ in their arguments' types alone.
  [[nodiscard]] std::string signature() const;

 private:
  std::vector<std::string> bytes_;
  std::vector<Oid> types_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

// REQUIRES: columns of integers, float8, bool, bytea or text: what our statements ask for.
[[nodiscard]] Rows rows_of(const PGresult& result);

}  // namespace trimtab
