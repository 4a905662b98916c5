
#include <filesystem>

#include "base/check.hpp"
#include "store/database_backend.hpp"
#include "store/file_place.hpp"

namespace trimtab {

bool names_server(std::string_view name) {
  return name.starts_with("postgresql://") || name.starts_with("postgres://");
}

std::optional<Bytes> bytes_on_disk(const std::string& name) {
  if (names_server(name)) return std::nullopt;
  const auto path = real_name(name, false);
  std::error_code absent;
  const auto file = path.ok() ? std::filesystem::file_size(*path, absent) : 0;
  if (!path.ok() || absent) return std::nullopt;
  const auto log = std::filesystem::file_size(*path + "-wal", absent);
  return static_cast<Bytes>(file + (absent ? 0 : log));
}

std::string without_secrets(const std::string& name) {
  const std::size_t scheme = name.find("://");
  if (scheme == std::string::npos) return "postgresql://...";
  const std::size_t begin = scheme + 3;
  const std::size_t at = name.rfind('@');
  std::string user;
  std::string rest = name.substr(begin);
  if (at != std::string::npos && at >= begin) {
    user = name.substr(begin, at - begin);
    user = user.substr(0, user.find_first_of(":/?")) + "@";
    rest = name.substr(at + 1);
  }
  return name.substr(0, begin) + user + rest.substr(0, rest.find('?'));
}

Error other_version(const std::string& name, const char* kind, std::int64_t found, std::int64_t known) {
  const std::string versions = name + " is a " + kind + " of version " + std::to_string(found) + ", but this release ";
  if (found > known) {
    return bad_input(versions + "knows versions up to " + std::to_string(known) +
                     "; nothing was changed. Use the release that wrote it, or a newer one");
  }
  return bad_input(versions + "reads version " + std::to_string(known) +
                   ". A coordinator of this release upgrades it when it starts, as 'trimtab db merge " + name +
                   " FILE' does with any cost database. Either keeps a copy of the old tables");
}

Database::Database(std::unique_ptr<DatabaseBackend> backend) : backend_(std::move(backend)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& name, DatabaseMode mode, const Migrations& migrations,
                                bool exclusive) {
  TRIMTAB_ASSERT(migrations.application_id != 0 && !migrations.steps.empty(), "a kind of file needs an id and tables");
  const auto open_backend = names_server(name) ? open_postgres : open_sqlite;
  TRIMTAB_TRY(auto backend, open_backend(name, mode, migrations, exclusive));
  return Database(std::move(backend));
}

Status Database::execute(const std::string& sql, const Row& arguments) {
  TRIMTAB_TRY_STATUS(backend_->change(sql, arguments));
  return {};
}

Result<Rows> Database::execute_returning(const std::string& sql, const Row& arguments) {
  return backend_->change(sql, arguments);
}

Status Database::execute_each(const std::string& sql, const Rows& arguments) {
  return backend_->change_each(sql, arguments);
}

Result<Rows> Database::query(const std::string& sql, const Row& arguments) const {
  return backend_->query(sql, arguments);
}

Result<std::vector<Rows>> Database::query_each(const std::string& sql, const Rows& arguments) const {
  return backend_->query_each(sql, arguments);
}

Status Database::transaction(const std::function<Status()>& body) {
  return backend_->transaction(body);
}

Status Database::snapshot(const std::function<Status()>& body) const {
  return backend_->snapshot(body);
}

std::string Database::row_lock() const {
  return backend_->row_lock();
}

const std::string& Database::name() const {
  return backend_->name();
}

const std::string& Database::backup() const {
  return backend_->backup();
}

Status Database::keep_in_place() {
  return backend_->keep_in_place();
}

DatabaseHealth Database::look_after() {
  const Status in_place = keep_in_place();
  if (in_place.ok()) backend_->check_some();
  DatabaseHealth health = backend_->health();
  health.name = name();
  if (!in_place.ok()) health.out_of_place = in_place.error().message;
  return health;
}

Result<CheckedRows> Database::query_checked(const CheckedTable& table, const std::string& rest,
                                            const Row& arguments) const {
  return backend_->query_checked("SELECT " + columns_of(table) + ", checksum FROM " + table.name + " " + rest,
                                 arguments);
}

void keep_whole(CheckedRows& found, Row row, bool may_lack) {
  const Value checksum = std::move(row.back());
  row.pop_back();
  const bool has_none = checksum == Value(std::int64_t{0});
  if (checksum == Value(row_checksum(row)) || (may_lack && has_none)) {
    found.rows.push_back(std::move(row));
  } else {
    found.damaged.push_back(std::move(row));
  }
}

std::string columns_of(const CheckedTable& table) {
  std::string text;
  for (const std::string& column : table.columns) text += (text.empty() ? "" : ", ") + column;
  return text;
}

std::string insertion(const CheckedTable& table, const std::string& key) {
  std::string places;
  std::string again;
  for (const std::string& column : table.columns) {
    places += "?, ";
    again += column + " = excluded." + column + ", ";
  }
  const std::string insert =
      "INSERT INTO " + table.name + " (" + columns_of(table) + ", checksum) VALUES (" + places + "?)";
  if (key.empty()) return insert;
  return insert + " ON CONFLICT (" + key + ") DO UPDATE SET " + again + "checksum = excluded.checksum";
}

std::int64_t as_integer(const Value& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  TRIMTAB_ASSERT(integer != nullptr, "the column holds an integer");
  return *integer;
}

double as_real(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  TRIMTAB_ASSERT(real != nullptr, "the column holds a number");
  return *real;
}

const std::string& as_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  TRIMTAB_ASSERT(text != nullptr, "the column holds a text");
  return *text;
}

}  // namespace trimtab
