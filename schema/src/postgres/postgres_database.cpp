#include <algorithm>

#include "base/check.hpp"
#include "postgres_tables.hpp"
#include "store/database_backend.hpp"

namespace trimtab {

namespace {

// How often a transaction is run when others are in the way, or a server goes away under it.
constexpr int kAttempts = 10;
// How long a commit whose answer was lost is asked after: until the old connection's end of it has finished.
constexpr int kOutcomeQuestions = 50;
constexpr const char* kOutcomePause = "SELECT pg_sleep(0.1)";

// The server stops a statement by itself after its own limit, as it is set; it gets a third more to say so.
std::chrono::milliseconds answer_limit(std::int64_t statement_ms) {
  constexpr std::int64_t kLeastMs = 500;
  return std::chrono::milliseconds(statement_ms + std::max(statement_ms / 3, kLeastMs));
}

// A longer statement is stopped, a longer wait for another's lock given up, unless the role or the name says otherwise.
// The server notices as we do when the other side is gone. What is acknowledged is on its disk. What is no change
// reads. Every statement but reading all has an index: a server that took its statistics while a table was empty would
// scan it all the same, for each of the rows that a merge brings. A table of one row is still scanned, at a cost that
// this setting makes up and that calls for compiled code: a tenth of a second, also in a trigger, for each row.
constexpr const char* kSettings =
    "SELECT set_config(name, value, false) FROM (VALUES ('statement_timeout', '6s', '0'), ('lock_timeout', '5s', "
    "'0'), "
    "('idle_in_transaction_session_timeout', '60s', '0'), ('synchronous_commit', 'on', 'off'), "
    "('default_transaction_read_only', 'on', NULL), ('enable_seqscan', 'off', 'on'), ('jit', 'off', 'on'), "
    "('tcp_keepalives_idle', '10', NULL), ('tcp_keepalives_interval', '5', NULL), ('tcp_keepalives_count', '3', NULL)) "
    "AS wanted (name, value, instead_of) WHERE instead_of IS NULL OR current_setting(name) = instead_of";

std::vector<PostgresStatement> each(const std::string& sql, const Rows& arguments) {
  std::vector<PostgresStatement> statements;
  statements.reserve(arguments.size());
  for (const Row& one : arguments) statements.push_back({sql, one});
  return statements;
}

// A server that does not answer takes at most a tenth of its callers' time, who may be an event loop: after a vain
// wait for it, the pause before the next attempt to connect is so many times as long.
constexpr int kPause = 9;

enum class Scope { kNone, kSnapshot, kChange };

class PostgresDatabase : public DatabaseBackend {
 public:
  PostgresDatabase(PostgresName name, DatabaseMode mode, const Migrations& migrations, bool exclusive)
      : name_(std::move(name)),
        kind_(migrations.kind),
        mode_(mode),
        exclusive_(exclusive),
        tables_(name_, migrations) {}

  Status open();
  Result<ServerInspection> inspect();

  Result<Rows> change(const std::string& sql, const Row& arguments) override;
  Status change_each(const std::string& sql, const Rows& arguments) override;
  Result<Rows> query(const std::string& sql, const Row& arguments) override;
  Result<std::vector<Rows>> query_each(const std::string& sql, const Rows& arguments) override;
  Status transaction(const std::function<Status()>& body) override;
  Status snapshot(const std::function<Status()>& body) override;
  std::string row_lock() const override { return " FOR UPDATE"; }
  const std::string& name() const override { return name_.text; }
  const std::string& backup() const override { return tables_.backup(); }
  Status keep_in_place() override { return {}; }
  DatabaseHealth health() const override {
    DatabaseHealth health;
    health.unreadable = unreadable_;
    return health;
  }
  Result<CheckedRows> query_checked(const std::string& sql, const Row& arguments) override;

 private:
  struct Attempt {
    Status status;
    bool again = false;
  };

  Result<PostgresSession> connect();
  Result<PostgresSession> try_connect() const;
  // After a vain wait.
  void leave_alone(std::chrono::nanoseconds waited, const std::string& why);
  Status connected();  // again, where the connection was lost
  Status reconnect();
  Attempt attempt(const std::function<Status()>& body);
  Status begin();
  Attempt commit();
  Attempt outcome();  // of a commit whose answer was lost
  void roll_back();
  Result<std::vector<Rows>> ask(const std::vector<PostgresStatement>& statements);
  Result<std::vector<Rows>> read(const std::vector<PostgresStatement>& statements);
  [[nodiscard]] std::string subject() const { return kind_ + " " + name_.text; }

  const PostgresName name_;
  const std::string kind_;
  const DatabaseMode mode_;
  const bool exclusive_;
  PostgresTables tables_;
  std::optional<PostgresSession> session_;
  std::int64_t owner_ = 0;
  std::chrono::steady_clock::time_point not_before_;
  std::string unreachable_;  // why, at the last attempt to connect
  Scope scope_ = Scope::kNone;
  std::optional<PostgresFailure> broken_;  // what ended the open transaction; nothing of it can be stored any more
  std::int64_t transaction_id_ = 0;
  std::uint64_t unreadable_ = 0;
};

Result<PostgresSession> PostgresDatabase::connect() {
  const auto begin = std::chrono::steady_clock::now();
  if (begin < not_before_) {
    return unavailable(unreachable_ + "; it took long to find out, so the server is left alone for a while");
  }
  auto session = try_connect();
  if (session.ok()) return session;
  leave_alone(std::chrono::steady_clock::now() - begin, session.error().message);
  return session;
}

void PostgresDatabase::leave_alone(std::chrono::nanoseconds waited, const std::string& why) {
  not_before_ = std::chrono::steady_clock::now() + kPause * waited;
  unreachable_ = why;
}

Result<PostgresSession> PostgresDatabase::try_connect() const {
  TRIMTAB_TRY(PostgresSession session, PostgresSession::connect(name_, kind_));
  if (!session.confidential()) {
    return bad_input(subject() +
                     ": the connection to another machine is not encrypted. Set the server up for TLS and use "
                     "sslmode=verify-full");
  }
  TRIMTAB_TRY(
      const auto answers,
      session.run_all({{kSettings}, {"SELECT setting::int8 FROM pg_settings WHERE name = 'statement_timeout'"}}));
  session.allow(answer_limit(as_integer(answers.at(1).at(0).at(0))));
  return session;
}

Status PostgresDatabase::open() {
  TRIMTAB_TRY(session_, connect());
  TRIMTAB_TRY_STATUS(tables_.prepare(*session_, mode_));
  if (!exclusive_) return {};
  TRIMTAB_TRY(owner_, tables_.own(*session_, 0));
  return {};
}

Result<ServerInspection> PostgresDatabase::inspect() {
  TRIMTAB_TRY(PostgresSession session, connect());
  return tables_.inspect(session, exclusive_);
}

Status PostgresDatabase::connected() {
  if (session_ && !session_->lost()) return {};
  if (session_ && session_->failure().silent) {
    leave_alone(session_->limit(), postgres_error(session_->failure(), subject()).message);
  }
  session_.reset();
  const Status again = reconnect();
  // Whatever it is: what was asked for is in order, and may be stored later.
  return again.ok() ? Status() : unavailable(again.error().message);
}

Status PostgresDatabase::reconnect() {
  TRIMTAB_TRY(PostgresSession session, connect());
  TRIMTAB_TRY_STATUS(tables_.recognize(session));
  if (exclusive_) TRIMTAB_TRY_STATUS(tables_.own(session, owner_));
  session_ = std::move(session);
  return {};
}

// Inside a transaction or a snapshot.
Result<std::vector<Rows>> PostgresDatabase::ask(const std::vector<PostgresStatement>& statements) {
  if (broken_) return unavailable(subject() + ": the transaction was rolled back: " + broken_->message);
  auto answers = session_->run_all(statements);
  if (!answers.ok()) broken_ = session_->failure();
  return answers;
}

Result<std::vector<Rows>> PostgresDatabase::read(const std::vector<PostgresStatement>& statements) {
  if (scope_ != Scope::kNone) return ask(statements);
  TRIMTAB_TRY_STATUS(connected());
  auto answers = session_->run_all(statements);
  if (answers.ok() || !session_->failure().lost) return answers;
  // A connection that nobody used for a while may have ended unseen.
  TRIMTAB_TRY_STATUS(connected());
  return session_->run_all(statements);
}

Result<Rows> PostgresDatabase::query(const std::string& sql, const Row& arguments) {
  TRIMTAB_TRY(auto answers, read({{sql, arguments}}));
  return std::move(answers.front());
}

// Rows from before there were checksums have none until they are written again.
Result<CheckedRows> PostgresDatabase::query_checked(const std::string& sql, const Row& arguments) {
  TRIMTAB_TRY(Rows rows, query(sql, arguments));
  CheckedRows found;
  for (Row& row : rows) keep_whole(found, std::move(row), true);
  unreadable_ += found.damaged.size();
  return found;
}

Result<std::vector<Rows>> PostgresDatabase::query_each(const std::string& sql, const Rows& arguments) {
  return read(each(sql, arguments));
}

Result<Rows> PostgresDatabase::change(const std::string& sql, const Row& arguments) {
  Rows rows;
  const auto run = [&]() -> Status {
    TRIMTAB_TRY(auto answers, ask({{sql, arguments}}));
    rows = std::move(answers.front());
    return {};
  };
  TRIMTAB_TRY_STATUS(scope_ == Scope::kChange ? run() : transaction(run));
  return rows;
}

Status PostgresDatabase::change_each(const std::string& sql, const Rows& arguments) {
  TRIMTAB_ASSERT(scope_ == Scope::kChange, "many changes are one transaction");
  TRIMTAB_TRY_STATUS(ask(each(sql, arguments)));
  return {};
}

Status PostgresDatabase::transaction(const std::function<Status()>& body) {
  TRIMTAB_ASSERT(scope_ == Scope::kNone, "transactions do not nest");
  if (mode_ == DatabaseMode::kReadOnly) return unavailable(subject() + " is open for reading; nothing was stored");
  for (int left = kAttempts;; --left) {
    Attempt tried = attempt(body);
    if (!tried.again || left == 1) return tried.status;
  }
}

PostgresDatabase::Attempt PostgresDatabase::attempt(const std::function<Status()>& body) {
  if (const Status status = connected(); !status.ok()) return {status};
  broken_.reset();
  if (const Status status = begin(); !status.ok()) {
    roll_back();
    return {status, broken_ && may_pass_again(*broken_)};
  }
  scope_ = Scope::kChange;
  Status status = body();
  scope_ = Scope::kNone;
  if (status.ok() && !broken_) return commit();
  roll_back();
  if (status.ok()) status = postgres_error(*broken_, subject());
  return {status, broken_ && may_pass_again(*broken_)};
}

Status PostgresDatabase::begin() {
  TRIMTAB_TRY(const auto answers, ask(tables_.begin_change()));
  const Rows& tables = answers.back();
  if (!tables.empty()) transaction_id_ = as_integer(tables[0][0]);
  const Status version = tables_.check_version(tables.empty() ? 0 : as_integer(tables[0][1]));
  return version.ok() ? Status() : unavailable(version.error().message);
}

PostgresDatabase::Attempt PostgresDatabase::commit() {
  const auto committed = ask({{"COMMIT"}});
  if (committed.ok() && session_->last_tag() == "COMMIT") return {};
  if (committed.ok()) return {unavailable(subject() + ": the server rolled the transaction back")};
  if (broken_->lost) return outcome();
  return {committed.error(), may_pass_again(*broken_)};
}

PostgresDatabase::Attempt PostgresDatabase::outcome() {
  const Error unknown = unavailable(subject() +
                                    ": the connection was lost while a change was being stored, and the "
                                    "server cannot say yet whether it was. See whether the server runs");
  for (int question = 0; question < kOutcomeQuestions; ++question) {
    if (const Status status = connected(); !status.ok()) return {wrap(unknown.message, status.error())};
    const auto answer = session_->run("SELECT COALESCE(pg_xact_status(?::text::xid8), '')", {transaction_id_});
    if (!answer.ok()) return {wrap(unknown.message, answer.error())};
    const std::string& state = as_text((*answer)[0][0]);
    if (state == "committed") return {};
    if (state == "aborted") return {unknown, true};
    if (state != "in progress") break;
    (void)session_->run(kOutcomePause);
  }
  return {unknown};
}

void PostgresDatabase::roll_back() {
  scope_ = Scope::kNone;
  // Where this fails the connection is gone, and with it the transaction.
  if (!session_->lost()) (void)session_->run("ROLLBACK");
}

Status PostgresDatabase::snapshot(const std::function<Status()>& body) {
  TRIMTAB_ASSERT(scope_ == Scope::kNone, "transactions do not nest");
  TRIMTAB_TRY_STATUS(read({{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}}));
  broken_.reset();
  scope_ = Scope::kSnapshot;
  const Status status = body();
  roll_back();  // there is nothing to commit
  return status;
}

}  // namespace

Result<std::unique_ptr<DatabaseBackend>> open_postgres(const std::string& name, DatabaseMode mode,
                                                       const Migrations& migrations, bool exclusive) {
  TRIMTAB_TRY(PostgresName parsed, parse_postgres_name(name));
  TRIMTAB_ASSERT(!migrations.server_steps.empty(), "this kind of database is always a file");
  auto database = std::make_unique<PostgresDatabase>(std::move(parsed), mode, migrations, exclusive);
  TRIMTAB_TRY_STATUS(database->open());
  return std::unique_ptr<DatabaseBackend>(std::move(database));
}

Result<ServerInspection> inspect_server(const std::string& name, const Migrations& migrations, bool exclusive) {
  TRIMTAB_TRY(PostgresName parsed, parse_postgres_name(name));
  TRIMTAB_ASSERT(!migrations.server_steps.empty(), "this kind of database is always a file");
  return PostgresDatabase(std::move(parsed), DatabaseMode::kReadOnly, migrations, exclusive).inspect();
}

}  // namespace trimtab
