#include "api/call.hpp"

#include <utility>

#include "api/rank_output.hpp"
#include "base/numbers.hpp"
#include "base/utf8.hpp"

namespace trimtab::coordinator {

namespace {

// The same answers without what ranks have printed. That is taken out where the answer is made.
AnswerWorker::Prepare hides_output(AnswerWorker::Prepare prepare) {
  return [prepare = std::move(prepare)]() -> AnswerWorker::Making {
    return [making = prepare()] {
      net::HttpResponse made = making();
      made.body = without_rank_output(std::move(made.body));
      return made;
    };
  };
}

}  // namespace

net::HttpResponse failure(int status, const std::string& message) {
  return {status, "application/json", error_document(message)};
}

net::HttpResponse failure(const Error& error) {
  return failure(error.kind == ErrorKind::kNo ? 409 : error.kind == ErrorKind::kBadInput ? 400 : 503, error.message);
}

net::HttpResponse ok(std::string body) {
  return {200, "application/json", std::move(body)};
}

net::HttpResponse in_turn(const Call& call, AnswerWorker::Prepare prepare) {
  AnswerWorker* const answers = call.services.answers;
  if (answers == nullptr) return prepare()();
  const std::string address = call.request.address.substr(0, call.request.address.rfind(':'));
  const std::string whom = call.caller.name.empty() ? address : call.caller.name;
  if (!answers->has_room(whom)) {
    return failure(429, "answers that " + whom + " has asked for are being made one after the other, and " +
                            std::to_string(AnswerWorker::kMostOfCaller) + " wait already: ask again in a second");
  }
  if (!call.caller.sees_output()) prepare = hides_output(std::move(prepare));
  net::HttpResponse response;
  response.later = [answers, whom, prepare = std::move(prepare)](net::HttpResponse::Answer answer) {
    answers->enqueue(whom, prepare, std::move(answer));
  };
  return response;
}

std::string argument(const Call& call, const std::string& name) {
  const auto found = call.request.query.find(name);
  return found == call.request.query.end() ? "" : found->second;
}

Result<std::int64_t> after_of(const Call& call) {
  const std::string text = argument(call, "after");
  if (text.empty()) return std::int64_t{0};
  if (const auto after = parse_number<std::int64_t>(text)) return *after;
  return bad_input("after = '" + text + "': a sequence number is needed");
}

std::string tenant_of(const Call& call, std::int64_t run) {
  const JobRun* job = call.jobs.find_run(run);
  return job == nullptr ? call.caller.tenant : job->state().tenant;
}

AuditEntry order_of(const Call& call, const std::string& what, const std::string& job, std::int64_t run) {
  const std::string by = call.caller.name.empty() ? first_of(argument(call, "by"), kLongestWho) : call.caller.name;
  return {by.empty() ? "somebody" : by, what, job, run, first_of(argument(call, "why"), kLongestWhy),
          tenant_of(call, run)};
}

Status order_asked(const Call& call, const std::string& what, const std::string& job, std::int64_t run) {
  const Status stored =
      call.services.store.add_audit(order_of(call, what, job, run), call.services.clock.wall().count());
  if (stored.ok()) return {};
  return wrap("nothing is done, because the audit log cannot be written", stored.error());
}

}  // namespace trimtab::coordinator
