#pragma once

// One connection to a server: statements are prepared once and sent together, so that many of them take one round trip
// (libpq's pipeline mode). Values never become part of a statement's text. Not thread-safe. A server that stands still
// while the network below it acknowledges takes no longer than the limit: then the connection is given up.
// https://www.postgresql.org/docs/15/libpq-pipeline-mode.html

#include <libpq-fe.h>

#include <chrono>
#include <map>

#include "postgres_name.hpp"
#include "schema/database.hpp"

namespace trimtab {

// What a server or libpq says went wrong.
struct PostgresFailure {
  std::string state;    // SQLSTATE; empty where the server did not answer
  std::string message;  // the server's or libpq's
  bool lost = false;    // the connection is gone
  bool silent = false;  // because the server did not answer in time
};

// Whether the same transaction may succeed when it is run again: others were in the way, or the connection was lost.
[[nodiscard]] bool may_pass_again(const PostgresFailure& failure);

// What is needed where a connection did not come about, and what to do. libpq's words for the reason are all there is
// to tell by.
[[nodiscard]] std::string connection_advice(std::string_view reason);

// `subject`: kind and name of the database ("cost database postgresql://...").
[[nodiscard]] Error postgres_error(const PostgresFailure& failure, const std::string& subject);

struct PostgresStatement {
  std::string sql;
  Row arguments = {};
};

class PostgresSession {
 public:
  // `kind`: of the database, for messages.
  [[nodiscard]] static Result<PostgresSession> connect(const PostgresName& name, const std::string& kind);

  // How long the server may take for what is sent at once. The beginning: kAnswerLimit.
  static constexpr std::chrono::milliseconds kAnswerLimit{8000};
  void allow(std::chrono::milliseconds limit) { limit_ = limit; }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }

  // All of them, in order; outside a transaction they are one of their own. The first that fails ends the list.
  // REQUIRES of more than one: small answers, which the connection's buffers hold.
  [[nodiscard]] Result<std::vector<Rows>> run_all(const std::vector<PostgresStatement>& statements);
  [[nodiscard]] Result<Rows> run(const std::string& sql, const Row& arguments = {});
  // A text of ours with several statements and no arguments.
  [[nodiscard]] Status script(const std::string& text);

  // Of the last call that failed.
  [[nodiscard]] const PostgresFailure& failure() const { return failure_; }
  // What the server says it did last: "COMMIT", "ROLLBACK", "INSERT 0 1".
  [[nodiscard]] const std::string& last_tag() const { return last_tag_; }
  [[nodiscard]] bool lost() const { return PQstatus(connection_.get()) != CONNECTION_OK; }
  // Nobody on the way can read what is sent.
  [[nodiscard]] bool confidential() const;

 private:
  struct Close {
    void operator()(PGconn* connection) const { PQfinish(connection); }
    void operator()(PGresult* result) const { PQclear(result); }
  };
  using ResultHandle = std::unique_ptr<PGresult, Close>;
  struct Prepared {
    std::string key;   // text and types
    std::string name;  // on the server
  };

  PostgresSession(PGconn* connection, std::string subject) : connection_(connection), subject_(std::move(subject)) {}
  Result<std::vector<Rows>> exchange(const PostgresStatement* first, std::size_t count);
  // Whether libpq took the statement; where it is new, a preparation before it, noted in `preparations`.
  bool send(const PostgresStatement& statement, std::vector<Prepared>& preparations, std::vector<bool>& prepares);
  // The next answer and its end; null when the connection was lost or the limit has passed.
  ResultHandle receive();
  ResultHandle next_result();
  void begin_exchange();
  // Until the server takes or sends something; false once the limit has passed.
  bool wait(bool to_send);
  bool flush();
  bool note_failure(const PGresult* result);
  Result<bool> read_end();
  Error give_up();
  Error error() const { return postgres_error(failure_, subject_); }
  Status forget_statements();

  std::unique_ptr<PGconn, Close> connection_;
  std::string subject_;
  std::map<std::string, std::string> prepared_;  // key to name
  std::uint64_t names_ = 0;
  std::chrono::milliseconds limit_ = kAnswerLimit;
  std::chrono::steady_clock::time_point deadline_;
  bool silent_ = false;
  PostgresFailure failure_;
  std::string last_tag_;
};

}  // namespace trimtab
