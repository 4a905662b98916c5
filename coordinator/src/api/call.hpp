#pragma once

// What the handlers of the API's routes are given, and how they answer. Event loop's thread only.

#include <string>

#include "api/access.hpp"
#include "api/answer_worker.hpp"
#include "api/job_documents.hpp"
#include "net/server.hpp"
#include "services.hpp"
#include "state_store.hpp"

namespace trimtab::coordinator {

struct Call {
  const net::HttpRequest& request;
  Services& services;
  JobTable& jobs;
  Nanoseconds now;
  Nanoseconds up;
  std::string job_name;  // what stands for {id} in the route
  Caller caller = {};
};

[[nodiscard]] net::HttpResponse failure(int status, const std::string& message);
[[nodiscard]] net::HttpResponse failure(const Error& error);
[[nodiscard]] net::HttpResponse ok(std::string body);
// The document, or why there is none.
template <typename Value>
[[nodiscard]] net::HttpResponse answer_of(const Result<Value>& value, std::string (*document)(const Value&)) {
  return value.ok() ? ok(document(*value)) : failure(value.error());
}

// An answer that grows with what there is: made in its turn, off the loop. `prepare` runs on it.
[[nodiscard]] net::HttpResponse in_turn(const Call& call, AnswerWorker::Prepare prepare);

// Of the query; empty where it is not there.
[[nodiscard]] std::string argument(const Call& call, const std::string& name);
// Where to go on reading a list; 0 where it is not said.
[[nodiscard]] Result<std::int64_t> after_of(const Call& call);

// Of what a request says of itself, this much is in the audit log.
inline constexpr std::size_t kLongestWho = 128;
inline constexpr std::size_t kLongestWhy = 1000;

// Whose an entry about this run is; where there is none yet, the caller's.
[[nodiscard]] std::string tenant_of(const Call& call, std::int64_t run);
// A person's order. Who it is has been shown by a token; where none is needed, it is what the request says
// (?by=…&why=…).
[[nodiscard]] AuditEntry order_of(const Call& call, const std::string& what, const std::string& job, std::int64_t run);
// In the log before anything is done about it.
[[nodiscard]] Status order_asked(const Call& call, const std::string& what, const std::string& job, std::int64_t run);

}  // namespace trimtab::coordinator
