#include "postgres_session.hpp"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.hpp"
#include "postgres_placeholders.hpp"

namespace trimtab {

namespace {

// Statement texts come from code, not from data; the bound is for callers who build them all the same.
constexpr std::size_t kMaxPrepared = 128;
// Between two waits for the server: its answers to so many fit into the connection's buffers, so that neither side ever
// waits for the other to read.
constexpr std::size_t kMostAtOnce = 128;
constexpr int kBinary = 1;

// libpq's messages have several lines, and a full stop at the end of some.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::erase(text, '\t');
  while (text.ends_with(' ') || text.ends_with('.')) text.pop_back();
  return text;
}

std::string field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? "" : text;
}

// Values in libpq's binary format, exact both ways: integers as int8, numbers as float8, texts as bytea.

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

// One statement's arguments as libpq takes them. Refers to nothing of the row it was made from.
class Arguments {
 public:
  explicit Arguments(const Row& row) {
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

  // Tells statements apart that differ in their arguments' types alone.
  [[nodiscard]] std::string signature() const {
    std::string text;
    for (const Oid type : types_) text += "/" + std::to_string(type);
    return text;
  }
  [[nodiscard]] bool prepare(PGconn* connection, const std::string& name, const std::string& sql) const {
    return PQsendPrepare(connection, name.c_str(), sql.c_str(), count(), types_.data()) == 1;
  }
  [[nodiscard]] bool run(PGconn* connection, const std::string& name) const {
    return PQsendQueryPrepared(connection, name.c_str(), count(), values_.data(), lengths_.data(), formats_.data(),
                               kBinary) == 1;
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(types_.size()); }

  std::vector<std::string> bytes_;
  std::vector<Oid> types_;
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

// REQUIRES: columns of integers, float8, bool, bytea or text: what our statements ask for.
Rows rows_of(const PGresult& result) {
  Rows rows;
  const int columns = PQnfields(&result);
  for (int r = 0; r < PQntuples(&result); ++r) {
    Row& row = rows.emplace_back();
    for (int c = 0; c < columns; ++c) row.push_back(value_of(result, r, c));
  }
  return rows;
}

}  // namespace

Result<PostgresSession> PostgresSession::connect(const PostgresName& name, const std::string& kind) {
  const std::string subject = kind + " " + name.text;
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : name.parameters) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  PostgresSession session(PQconnectdbParams(keywords.data(), values.data(), 0), subject);
  PGconn* connection = session.connection_.get();
  if (session.lost()) {
    const std::string reason = one_line(PQerrorMessage(connection));
    return unavailable(subject + ": cannot connect: " + reason + ". " + connection_advice(reason));
  }
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  if (PQsetnonblocking(connection, 1) != 0 || PQenterPipelineMode(connection) == 0) {
    return unavailable(subject + ": libpq refuses to send several statements");
  }
  return session;
}

bool PostgresSession::confidential() const {
  PGconn* connection = connection_.get();
  if (PQsslInUse(connection) != 0 || PQgssEncInUse(connection) != 0) return true;
  const char* address = PQhostaddr(connection);
  const bool known = address != nullptr && *address != '\0';
  const char* host = known ? address : PQhost(connection);
  return host != nullptr && is_local_host(host);
}

Result<std::vector<Rows>> PostgresSession::run_all(const std::vector<PostgresStatement>& statements) {
  std::vector<Rows> answers;
  for (std::size_t i = 0; i < statements.size(); i += kMostAtOnce) {
    TRIMTAB_TRY(auto some, exchange(statements.data() + i, std::min(kMostAtOnce, statements.size() - i)));
    std::move(some.begin(), some.end(), std::back_inserter(answers));
  }
  return answers;
}

Result<Rows> PostgresSession::run(const std::string& sql, const Row& arguments) {
  TRIMTAB_TRY(auto answers, run_all({{sql, arguments}}));
  return std::move(answers.front());
}

bool PostgresSession::send(const PostgresStatement& statement, std::vector<Prepared>& preparations,
                           std::vector<bool>& prepares) {
  const Arguments arguments(statement.arguments);
  const std::string key = statement.sql + arguments.signature();
  const auto known = prepared_.find(key);
  const auto underway = std::ranges::find(preparations, key, &Prepared::key);
  std::string name;
  if (known != prepared_.end()) {
    name = known->second;
  } else if (underway != preparations.end()) {
    name = underway->name;
  } else {
    name = "s" + std::to_string(++names_);
    if (!arguments.prepare(connection_.get(), name, with_dollars(statement.sql))) return false;
    preparations.push_back({key, name});
    prepares.push_back(true);
  }
  prepares.push_back(false);
  return arguments.run(connection_.get(), name);
}

void PostgresSession::begin_exchange() {
  failure_ = {};
  silent_ = false;
  deadline_ = std::chrono::steady_clock::now() + limit_;
}

bool PostgresSession::wait(bool to_send) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now()).count();
  if (left <= 0) {
    silent_ = true;
    return false;
  }
  pollfd server{PQsocket(connection_.get()), static_cast<short>(to_send ? POLLIN | POLLOUT : POLLIN), 0};
  // What interrupts it, and what fails, is seen by libpq, or at the next call.
  (void)poll(&server, 1, static_cast<int>(std::min<long long>(left, 60'000)));
  return true;
}

// What the server says meanwhile is read, so that it never waits for us.
bool PostgresSession::flush() {
  while (PQflush(connection_.get()) == 1) {
    if (!wait(true)) return false;
    if (PQconsumeInput(connection_.get()) == 0) break;
  }
  return true;
}

// Where reading fails, libpq has the reason as its next result.
PostgresSession::ResultHandle PostgresSession::next_result() {
  while (!silent_ && PQisBusy(connection_.get()) == 1) {
    if (!wait(false) || PQconsumeInput(connection_.get()) == 0) break;
  }
  return ResultHandle(silent_ ? nullptr : PQgetResult(connection_.get()));
}

PostgresSession::ResultHandle PostgresSession::receive() {
  ResultHandle result = next_result();
  // Each answer but the synchronization's ends with a null.
  if (result != nullptr && PQresultStatus(result.get()) != PGRES_PIPELINE_SYNC) next_result();
  return result;
}

// True where it is one.
bool PostgresSession::note_failure(const PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return false;
  if (status == PGRES_PIPELINE_ABORTED || !failure_.message.empty()) return true;  // what an earlier failure led to
  failure_ = {field(result, PG_DIAG_SQLSTATE), one_line(field(result, PG_DIAG_MESSAGE_PRIMARY)), false};
  if (failure_.message.empty()) failure_.message = one_line(PQerrorMessage(connection_.get()));
  return true;
}

Result<std::vector<Rows>> PostgresSession::exchange(const PostgresStatement* first, std::size_t count) {
  begin_exchange();
  if (lost()) return give_up();
  if (prepared_.size() >= kMaxPrepared) TRIMTAB_TRY_STATUS(forget_statements());
  std::vector<Prepared> preparations;
  std::vector<bool> prepares;  // of what was sent: a preparation, or a statement's run
  bool sent = true;
  for (std::size_t i = 0; i < count && sent; ++i) sent = send(first[i], preparations, prepares);
  if (!sent || PQpipelineSync(connection_.get()) == 0 || !flush()) return give_up();
  std::vector<Rows> answers;
  bool failed = false;
  auto preparation = preparations.begin();
  for (const bool prepared : prepares) {
    const ResultHandle result = receive();
    if (result == nullptr) return give_up();
    failed = note_failure(result.get()) || failed;
    if (prepared && !failed) prepared_[preparation->key] = preparation->name;
    if (prepared) ++preparation;
    if (prepared || failed) continue;
    last_tag_ = PQcmdStatus(result.get());
    answers.push_back(rows_of(*result));
  }
  TRIMTAB_TRY(const bool ended, read_end());
  if (failed || !ended) return error();
  return answers;
}

// False when the server could not end it well.
Result<bool> PostgresSession::read_end() {
  bool well = true;
  for (;;) {
    const ResultHandle end = receive();
    if (end == nullptr || lost()) return give_up();
    if (PQresultStatus(end.get()) == PGRES_PIPELINE_SYNC) return well;
    well = !note_failure(end.get()) && well;
  }
}

// The connection cannot be used any more.
Error PostgresSession::give_up() {
  std::string reason = one_line(PQerrorMessage(connection_.get()));
  if (silent_) reason = "it has not answered within " + std::to_string(limit_.count()) + " ms";
  connection_.reset();
  failure_.lost = true;
  failure_.silent = silent_;
  if (failure_.message.empty()) failure_.message = reason.empty() ? "it does not answer" : std::move(reason);
  return error();
}

Status PostgresSession::script(const std::string& text) {
  PGconn* connection = connection_.get();
  if (lost()) return give_up();
  TRIMTAB_ASSERT(PQexitPipelineMode(connection) == 1, "every statement was answered");
  begin_exchange();
  if (PQsendQuery(connection, text.c_str()) == 0 || !flush()) return give_up();
  bool failed = false;
  while (const ResultHandle result = next_result()) failed = note_failure(result.get()) || failed;
  if (silent_ || lost()) return give_up();
  PQenterPipelineMode(connection);
  if (failed) return error();
  return {};
}

Status PostgresSession::forget_statements() {
  prepared_.clear();
  return script("DEALLOCATE ALL");
}

}  // namespace trimtab
