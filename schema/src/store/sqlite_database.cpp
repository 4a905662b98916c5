#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "documents/json_document.hpp"
#include "store/confirmed_log.hpp"
#include "store/content_check.hpp"
#include "store/database_backend.hpp"
#include "store/database_open.hpp"
#include "store/database_place.hpp"
#include "store/file_place.hpp"
#include "store/first_page.hpp"
#include "store/log_owner.hpp"
#include "store/open_content.hpp"
#include "store/row_checksum.hpp"
#include "store/salvage.hpp"

namespace trimtab {

namespace {

// Statement texts come from code, not from data; the bound is for callers who build them all the same.
constexpr std::size_t kMaxPrepared = 128;

// In words that say what to do. `what`: the kind of file ("cost database").
Error sqlite_failure(const SQLite::Exception& failure, const std::string& what, const std::string& path) {
  const std::string subject = what + " " + path;
  // It may repeat what stands in a file that somebody else wrote.
  const std::string reason =
      valid_text(failure.what()) + " (SQLite " + std::to_string(failure.getExtendedErrorCode()) + ")";
  switch (failure.getErrorCode()) {
    case SQLITE_FULL:
      return unavailable(subject +
                         ": the disk is full; nothing of this change was stored. Free space there, then try again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unavailable(subject + ": another program has kept it locked for 5 s; nothing of this change was stored. " +
                         "Wait for that program or stop it, then try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return unavailable(subject +
                         ": needs a file that may be read and written and a directory that takes new files: " + reason +
                         ". Check their permissions, or give another path");
    case SQLITE_NOTADB:
      return bad_input(subject + ": this file is not an SQLite database; nothing was changed. Give another path");
    case SQLITE_CORRUPT:
      return bad_input(subject + ": the file is damaged: " + reason + ". Put a backup in its place");
    case SQLITE_IOERR:
      if (failure.getExtendedErrorCode() == SQLITE_IOERR_FSYNC) {
        return unavailable(subject + ": the disk did not confirm that it has what was written: " + reason +
                           "; nothing of this change counts as stored. Look for the disk's errors in the kernel's log");
      }
      return unavailable(subject + ": reading or writing failed: " + reason +
                         "; nothing of this change was stored. Check the disk and its free space");
    default:
      return bad_input(subject + ": " + reason);
  }
}

struct Prepared {
  Prepared(SQLite::Database& connection, const std::string& sql) : statement(connection, sql) {
    for (int i = 0; i < statement.getColumnCount(); ++i) declared.push_back(declared_type(statement, i));
  }

  [[nodiscard]] bool fits_all() {
    for (int i = 0; i < statement.getColumnCount(); ++i) {
      if (!fits(declared[static_cast<std::size_t>(i)], statement.getColumn(i)) && !statement.getColumn(i).isNull()) {
        return false;
      }
    }
    return true;
  }

  Row row() {
    for (int i = 0; i < statement.getColumnCount(); ++i) {
      const SQLite::Column column = statement.getColumn(i);
      if (!fits(declared[static_cast<std::size_t>(i)], column)) {
        throw SQLite::Exception(std::string("column ") + column.getName() + " has a value of another type",
                                SQLITE_CORRUPT);
      }
    }
    return values_of(statement);
  }

  SQLite::Statement statement;
  std::string declared;  // a letter for each column
};

// Before it was opened.
struct Found {
  LogCheck log;
  std::string cut;      // what its end lacks; empty: nothing
  std::string kept_as;  // a copy of both
};

class SqliteDatabase : public DatabaseBackend {
 public:
  SqliteDatabase(std::string path, const Migrations& migrations, OwnerLock lock, DatabaseMode mode, Found found)
      : path_(std::move(path)),
        migrations_(migrations),
        kind_(migrations.kind),
        mode_(mode),
        found_(std::move(found)),
        lock_(std::move(lock)),
        open_(path_),
        connection_(connect(path_, mode, found_.log.is_of_the_past)) {}
  ~SqliteDatabase() override;

  // Brings the file to the newest version where the mode allows.
  Status prepare();
  // Where something of it cannot be read, that is set apart.
  Status check_content();

  Result<Rows> change(const std::string& sql, const Row& arguments) override;
  Status change_each(const std::string& sql, const Rows& arguments) override;
  Result<Rows> query(const std::string& sql, const Row& arguments) override { return run(sql, arguments); }
  Result<std::vector<Rows>> query_each(const std::string& sql, const Rows& arguments) override;
  Status transaction(const std::function<Status()>& body) override;
  Status snapshot(const std::function<Status()>& body) override { return run_inside("BEGIN", body); }
  std::string row_lock() const override { return ""; }
  const std::string& name() const override { return path_; }
  const std::string& backup() const override { return backup_; }
  Status keep_in_place() override;
  void check_some() override;
  DatabaseHealth health() const override {
    DatabaseHealth health;
    health.written_back = written_back_;
    health.set_apart = set_apart_;
    health.is_checking = check_ && !check_->done();
    health.checked_rows = check_ ? check_->rows() : 0;
    health.unreadable = std::max<std::uint64_t>(unreadable_.size(), found_damage_ ? 1 : 0);
    health.kept_as = found_.kept_as;
    health.is_log_watched = is_log_watched_;
    return health;
  }
  Result<CheckedRows> query_checked(const std::string& sql, const Row& arguments) override;

 private:
  [[nodiscard]] bool is_in_place() {
    return in_memory_ || (place_.is_set() && place_.look() == FilePlace::State::kKept &&
                          content_.look(connection_) == OpenContent::State::kKept);
  }
  // The log is not copied into a file that is somewhere else, and no other file's log is removed.
  void let_go();
  Status bring_back(FilePlace::State state);
  [[nodiscard]] Status refuse_changed();
  Status write_back();
  void begin_log();
  // Nothing is confirmed but what its log holds by now, and a start can tell that it does.
  Status confirm();
  // How far its log goes.
  void tell_start();
  Status open_again();
  Status bring_to_safety(const std::string& damage);
  [[nodiscard]] Error failed(const SQLite::Exception& failure);
  // Who opens it next checks it whole.
  [[nodiscard]] std::string suspect() const { return path_ + ".suspect"; }
  [[nodiscard]] bool is_suspect() const { return identity_of(suspect()).has_value(); }
  void make_suspect();
  [[nodiscard]] bool checks_all() const;
  Status forbid_others();
  Result<Rows> run(const std::string& sql, const Row& arguments);
  Prepared& prepared(const std::string& sql);
  [[nodiscard]] bool autocommit() const { return sqlite3_get_autocommit(connection_.getHandle()) != 0; }
  Status run_inside(const char* begin, const std::function<Status()>& body);
  // The body's and the commit's outcome.
  Status run_body(const std::function<Status()>& body);
  void roll_back();

  const std::string path_;
  const Migrations migrations_;
  const std::string kind_;
  const DatabaseMode mode_;
  Found found_;
  OwnerLock lock_;  // given back after the connection has closed, as the next
  OpenFile open_;
  SQLite::Database connection_;
  FilePlace place_;
  OpenContent content_;
  std::optional<ConfirmedFile> confirmed_;
  bool opened_ = false;
  bool has_begun_log_ = false;
  bool in_memory_ = false;  // SQLite keeps files where no path names them (its VFS memdb)
  std::string backup_;
  std::uint64_t written_back_ = 0;
  std::uint64_t set_apart_ = 0;
  static constexpr std::size_t kMostUnreadable = 100'000;
  std::set<std::int64_t> unreadable_;  // checksums of what was read and is damaged: a row that is read again is one
  bool found_damage_ = false;
  bool is_log_watched_ = true;
  std::optional<ContentCheck> check_;  // of what was not checked when it was opened
  std::map<std::string, std::unique_ptr<Prepared>> statements_;
  bool in_transaction_ = false;
};

SqliteDatabase::~SqliteDatabase() {
  if (mode_ == DatabaseMode::kReadOnly || in_memory_) return;
  if (!is_in_place()) {
    let_go();
  } else if (!in_transaction_ && !OpenContent::begins_log(connection_)) {
    mark_log(connection_);  // of an older copy of the log the file is then none
  }
}

Status SqliteDatabase::prepare() {
  // Else SQLite refuses a file that is shorter than its first page says.
  if (!found_.cut.empty()) connection_.exec("PRAGMA writable_schema = ON");
  TRIMTAB_TRY(backup_, trimtab::prepare(connection_, path_, mode_, migrations_));
  place_ = FilePlace(path_);
  if (!std::exchange(opened_, true)) in_memory_ = !place_.is_set();
  return {};
}

void SqliteDatabase::let_go() {
  statements_.clear();
  confirmed_.reset();
  if (place_.is_set() && place_.look() == FilePlace::State::kReplaced) place_.take_log_away();
  try {
    copy_log_at_close(connection_, false);
  } catch (const SQLite::Exception&) {
    return;  // a connection that cannot be told so has no log
  }
}

Result<Rows> SqliteDatabase::change(const std::string& sql, const Row& arguments) {
  if (!in_transaction_) {
    TRIMTAB_TRY_STATUS(keep_in_place());
    begin_log();
  }
  auto changed = run(sql, arguments);
  if (changed.ok() && !in_transaction_) TRIMTAB_TRY_STATUS(confirm());
  return changed;
}

// The path is looked at before the change, where it can still be brought back, and right before the commit, where the
// change can be taken back. What it has left in the log is looked at before it is confirmed.
Status SqliteDatabase::transaction(const std::function<Status()>& body) {
  TRIMTAB_TRY_STATUS(keep_in_place());
  begin_log();
  const Status changed = run_inside("BEGIN IMMEDIATE", [&]() -> Status {
    TRIMTAB_TRY_STATUS(body());
    if (is_in_place()) return {};
    return unavailable(kind_ + " " + path_ + ": the file was removed or replaced meanwhile; nothing of this change " +
                       "was stored");
  });
  return changed.ok() ? confirm() : changed;
}

Status SqliteDatabase::confirm() {
  if (in_memory_) return {};
  if (content_.look(connection_) != OpenContent::State::kKept) TRIMTAB_TRY_STATUS(refuse_changed());
  tell_start();
  return {};
}

// Where something is missing of a kind without checks, it could not be noted.
void SqliteDatabase::tell_start() {
  if (mode_ == DatabaseMode::kReadOnly || in_memory_ || migrations_.checked.empty()) return;
  if (!confirmed_ || !confirmed_->is_in_place()) confirmed_.emplace(path_, /*creates=*/true);
  const bool has_log = content_.log().frames > 0;
  is_log_watched_ = confirmed_->is_in_place() && (!has_log || confirmed_->write(content_.log()));
}

Status SqliteDatabase::keep_in_place() {
  if (mode_ == DatabaseMode::kReadOnly) return {};
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::absolute(path_).parent_path(), error)) {
    return unavailable(kind_ + " " + path_ + ": nothing is stored any more, since its directory was removed. Make it " +
                       "again, and the file is written back there");
  }
  const Status owned = lock_.renew(path_);
  if (!owned.ok() || is_in_place()) return owned;
  TRIMTAB_ASSERT(!in_transaction_, "a file is brought back between two changes");
  try {
    return place_.is_set() ? bring_back(place_.look()) : prepare();
  } catch (const SQLite::Exception& failure) {
    return wrap("nothing is stored any more, since its file was removed and cannot be written back",
                sqlite_failure(failure, kind_, path_));
  }
}

Status SqliteDatabase::bring_back(FilePlace::State state) {
  const std::string subject = kind_ + " " + path_ + ": nothing is stored any more, since ";
  switch (state) {
    case FilePlace::State::kKept:
      return refuse_changed();
    case FilePlace::State::kRemoved:
      return write_back();
    case FilePlace::State::kReplaced:
      place_.take_log_away();
      return unavailable(subject +
                         "another file stands there than the one that is open. Move that file away, and the " +
                         "open one is written back. To go on with that file instead, restart the program");
    case FilePlace::State::kLogReplaced:
      return unavailable(subject + "its log " + path_ + "-wal was replaced by another file. Move that file away, and " +
                         "what the open one holds is copied into the database");
    case FilePlace::State::kLogRemoved:
      TRIMTAB_TRY_STATUS(copy_log(connection_, path_));
      ++written_back_;
      return open_again();
  }
  return {};
}

Status SqliteDatabase::refuse_changed() {
  const std::string log = path_ + "-wal";
  const std::string changed = " was cut or overwritten by another program while it was open. ";
  switch (content_.look(connection_)) {
    case OpenContent::State::kKept:
      break;
    case OpenContent::State::kFileChanged:
      return unavailable(kind_ + " " + path_ + ": nothing is stored any more, since the file" + changed +
                         "Stop this program, move the file and " + log + " away, put a backup in the file's place, " +
                         "and start the program again");
    case OpenContent::State::kLogChanged:
      return unavailable(kind_ + " " + path_ + ": nothing is stored any more, since its log " + log + changed +
                         "What was stored last may be lost with it. Start the program again, which goes on with what " +
                         "is in the file");
  }
  return {};
}

// The first log of this object begins with two marks, and the first of them is in the file: else a copy of the file
// that was made before could not be told from the file.
void SqliteDatabase::begin_log() {
  if (in_memory_ || !OpenContent::begins_log(connection_)) return;
  mark_log(connection_);
  if (std::exchange(has_begun_log_, true)) return;
  if (run("PRAGMA wal_checkpoint(PASSIVE)", {}).ok() && OpenContent::begins_log(connection_)) mark_log(connection_);
}

Status SqliteDatabase::write_back() {
  TRIMTAB_TRY_STATUS(copy_to(connection_, rescued_of(path_)));
  TRIMTAB_TRY_STATUS(take_rescued(path_));
  ++written_back_;
  return open_again();
}

Status SqliteDatabase::check_content() {
  if (migrations_.checked.empty()) return {};
  const std::string lost = found_.log.lost;
  const std::string cut = std::exchange(found_.cut, "");
  if (lost.empty() && cut.empty() && !checks_all()) {
    try {
      set_apart_ = count_set_apart(connection_);
      if (mode_ != DatabaseMode::kReadOnly) {
        keep_first_page(connection_, path_);
        check_.emplace(migrations_.checked);
      }
      return {};
    } catch (const SQLite::Exception& failure) {
      if ((failure.getErrorCode() & 0xff) != SQLITE_CORRUPT) throw;
    }
  }
  const std::string damage =
      cut.empty() ? find_damage(connection_, migrations_, mode_ != DatabaseMode::kReadOnly) : cut;
  if (!damage.empty()) TRIMTAB_TRY_STATUS(bring_to_safety(damage));
  if (mode_ != DatabaseMode::kReadOnly && !in_memory_) keep_first_page(connection_, path_);
  if (mode_ != DatabaseMode::kReadOnly && is_suspect()) std::remove(suspect().c_str());
  const bool notes = !lost.empty() && mode_ != DatabaseMode::kReadOnly;
  const auto note = [&]() -> Status {
    note_damage(connection_, migrations_, lost);
    return {};
  };
  if (notes) TRIMTAB_TRY_STATUS(transaction(note));
  set_apart_ = count_set_apart(connection_) + (lost.empty() || notes ? 0 : 1);
  return {};
}

void SqliteDatabase::check_some() {
  tell_start();
  constexpr Nanoseconds kSlice = std::chrono::milliseconds(4);
  if (!check_ || check_->done() || in_transaction_) return;
  const ContentCheck::Reader reader{
      [this](const std::string& sql, const Row& arguments) { return query(sql, arguments); },
      [this](const std::string& sql, const Row& arguments) { return query_checked(sql, arguments); }};
  check_->step(reader, SystemClock(), kSlice);
}

bool SqliteDatabase::checks_all() const {
  return is_suspect() || bytes_on_disk(path_).value_or(0) <= migrations_.checked_up_to;
}

void SqliteDatabase::make_suspect() {
  const bool is_limited = migrations_.checked_up_to < std::numeric_limits<Bytes>::max();
  if (!is_limited || in_memory_) return;
  found_damage_ = true;
  std::ofstream(suspect(), std::ios::app);
}

Error SqliteDatabase::failed(const SQLite::Exception& failure) {
  if ((failure.getErrorCode() & 0xff) == SQLITE_CORRUPT) make_suspect();
  return sqlite_failure(failure, kind_, path_);
}

// Who only reads does so from a copy in memory. Who writes leaves the file as it is under another name, and goes on
// with a new one.
Status SqliteDatabase::bring_to_safety(const std::string& damage) {
  if (mode_ == DatabaseMode::kReadOnly) {
    SQLite::Database copy(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    add_row_checksum(copy);
    salvage(connection_, copy, migrations_, damage);
    connection_ = std::move(copy);
    return {};
  }
  const Status alone = forbid_others();
  if (!alone.ok()) return wrap(kind_ + " " + path_ + " is damaged (" + damage + ")", alone.error());
  const std::string fresh = rescued_of(path_);
  {
    std::filesystem::remove(fresh + ".tmp");
    SQLite::Database copy(fresh + ".tmp", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    add_row_checksum(copy);
    salvage(connection_, copy, migrations_, damage);
  }
  TRIMTAB_TRY(found_.kept_as, change_places(path_));
  return open_again();
}

// In WAL mode only who is alone with a file can leave that mode; and the log is then part of the file.
Status SqliteDatabase::forbid_others() {
  try {
    SQLite::Statement leaving(connection_, "PRAGMA journal_mode = DELETE");
    const bool left = leaving.executeStep() && leaving.getColumn(0).getString() == "delete";
    if (left) return {};
  } catch (const SQLite::Exception& failure) {
    const int code = failure.getErrorCode() & 0xff;
    if (code != SQLITE_BUSY && code != SQLITE_LOCKED) return {};  // its pages cannot be read: what can be is copied
  }
  return unavailable("another program has it open. Stop that one: what can be read is kept by whoever opens it alone");
}

Status SqliteDatabase::open_again() {
  let_go();
  connection_ = connect(path_, mode_);
  place_ = FilePlace();
  content_ = OpenContent();
  return prepare();
}

Prepared& SqliteDatabase::prepared(const std::string& sql) {
  if (statements_.size() >= kMaxPrepared) statements_.clear();
  auto& statement = statements_[sql];
  if (!statement) statement = std::make_unique<Prepared>(connection_, sql);
  return *statement;
}

Result<Rows> SqliteDatabase::run(const std::string& sql, const Row& arguments) {
  // SQLite may roll a transaction back by itself (disk full); what follows must not be stored on its own then.
  if (in_transaction_ && autocommit()) return unavailable(kind_ + " " + path_ + ": the transaction was rolled back");
  try {
    Prepared& ready = prepared(sql);
    SQLite::Statement& statement = ready.statement;
    const int count = static_cast<int>(arguments.size());
    for (int i = 0; i < count; ++i) bind(statement, i + 1, arguments[static_cast<std::size_t>(i)]);
    Rows rows;
    while (statement.executeStep()) rows.push_back(ready.row());
    statement.reset();
    statement.clearBindings();
    return rows;
  } catch (const SQLite::Exception& failure) {
    Error error = failed(failure);
    statements_.erase(sql);
    return error;
  }
}

Status SqliteDatabase::change_each(const std::string& sql, const Rows& arguments) {
  TRIMTAB_ASSERT(in_transaction_, "many changes are one transaction");
  for (const Row& one : arguments) TRIMTAB_TRY_STATUS(run(sql, one));
  return {};
}

Result<CheckedRows> SqliteDatabase::query_checked(const std::string& sql, const Row& arguments) {
  try {
    Prepared& ready = prepared(sql);
    SQLite::Statement& statement = ready.statement;
    int index = 0;
    for (const Value& argument : arguments) bind(statement, ++index, argument);
    CheckedRows found;
    while (statement.executeStep()) {
      if (ready.fits_all()) {
        keep_whole(found, values_of(statement), false);
      } else {
        // Without its checksum, as a row whose types fit: it is the same row whichever of the two is wrong.
        found.damaged.push_back(values_of(statement));
        found.damaged.back().pop_back();
      }
    }
    statement.reset();
    statement.clearBindings();
    for (const Row& row : found.damaged) {
      if (unreadable_.size() < kMostUnreadable) unreadable_.insert(row_checksum(row));
    }
    if (!found.damaged.empty()) make_suspect();
    return found;
  } catch (const SQLite::Exception& failure) {
    Error error = failed(failure);
    statements_.erase(sql);
    return error;
  }
}

Result<std::vector<Rows>> SqliteDatabase::query_each(const std::string& sql, const Rows& arguments) {
  std::vector<Rows> answers;
  for (const Row& one : arguments) {
    TRIMTAB_TRY(Rows rows, run(sql, one));
    answers.push_back(std::move(rows));
  }
  return answers;
}

void SqliteDatabase::roll_back() {
  in_transaction_ = false;
  if (autocommit()) return;
  const bool ended = run("ROLLBACK", {}).ok() || autocommit();
  TRIMTAB_ASSERT(ended, "a rollback must end the transaction");
}

Status SqliteDatabase::run_body(const std::function<Status()>& body) {
  TRIMTAB_TRY_STATUS(body());
  TRIMTAB_TRY_STATUS(run("COMMIT", {}));
  return {};
}

Status SqliteDatabase::run_inside(const char* begin, const std::function<Status()>& body) {
  TRIMTAB_ASSERT(!in_transaction_, "transactions do not nest");
  TRIMTAB_TRY_STATUS(run(begin, {}));
  in_transaction_ = true;
  const Status status = run_body(body);
  if (!status.ok()) roll_back();
  in_transaction_ = false;
  return status;
}

// What tells of a file or a log that is not there any more tells nothing of those that will be made. Of a log that
// cannot be read whole a copy is kept, with its file.
Status make_ready(const std::string& path, Found& found) {
  if (!identity_of(path)) remove_first_page(path);
  if (!found.log.lost.empty()) {
    TRIMTAB_TRY(found.kept_as, keep_copies(path));
  }
  if (found.log.is_of_the_past) TRIMTAB_TRY_STATUS(remove_log(path));
  if (!identity_of(path + "-wal")) forget_confirmed(path);
  return {};
}

Result<std::unique_ptr<DatabaseBackend>> try_open(const std::string& path, DatabaseMode mode,
                                                  const Migrations& migrations, bool exclusive) {
  if (mode != DatabaseMode::kReadOnly) TRIMTAB_TRY_STATUS(take_rescued(path));
  TRIMTAB_TRY_STATUS(check_place(path, mode, migrations));
  OwnerLock lock;
  if (exclusive) {
    TRIMTAB_TRY(lock, OwnerLock::acquire(path));
  }
  Found found;
  TRIMTAB_TRY(found.log, check_log(path));
  found.cut = what_is_cut(path);
  if (migrations.checked.empty()) found = {};  // nothing of it is set apart
  if (mode != DatabaseMode::kReadOnly) TRIMTAB_TRY_STATUS(make_ready(path, found));
  try {
    auto database = std::make_unique<SqliteDatabase>(path, migrations, std::move(lock), mode, std::move(found));
    TRIMTAB_TRY_STATUS(database->prepare());
    TRIMTAB_TRY_STATUS(database->check_content());
    return std::unique_ptr<DatabaseBackend>(std::move(database));
  } catch (const SQLite::Exception& failure) {
    return sqlite_failure(failure, migrations.kind, path);
  }
}

}  // namespace

Result<std::unique_ptr<DatabaseBackend>> open_sqlite(const std::string& name, DatabaseMode mode,
                                                     const Migrations& migrations, bool exclusive) {
  TRIMTAB_TRY(const std::string path, real_name(name, mode != DatabaseMode::kReadOnly));
  auto opened = try_open(path, mode, migrations, exclusive);
  const bool is_refused = !opened.ok() && opened.error().kind == ErrorKind::kBadInput;
  if (!is_refused || mode == DatabaseMode::kReadOnly || !mend_first_page(path)) return opened;
  return try_open(path, mode, migrations, exclusive);
}

}  // namespace trimtab
