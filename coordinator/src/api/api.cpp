#include "api/api.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "api/call.hpp"
#include "api/cost_sharing.hpp"
#include "api/rank_output.hpp"
#include "base/numbers.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "report.hpp"
#include "status_page.hpp"

namespace trimtab::coordinator {
namespace {

// Beyond so many entries a list is written off the loop.
constexpr std::size_t kFewEntries = 256;

// `list` makes a document from what the loop's thread owns.
template <typename List>
net::HttpResponse list_of(const Call& call, std::size_t entries, const List& list) {
  if (entries <= kFewEntries) return ok(api::to_json(list()));
  return in_turn(
      call, [list]() -> AnswerWorker::Making { return [document = list()] { return ok(api::to_json(document)); }; });
}

net::HttpResponse get_status(const Call& call) {
  const std::size_t entries = call.services.members.members().size() + call.jobs.jobs().size();
  return list_of(
      call, entries,
      [&members = call.services.members, &jobs = call.jobs, now = call.now, up = call.up, caller = call.caller,
       failure = call.services.storage.failure()] { return status_of(members, jobs, now, up, caller, failure); });
}

net::HttpResponse get_nodes(const Call& call) {
  return list_of(call, call.services.members.members().size(),
                 [&members = call.services.members, &jobs = call.jobs, now = call.now, caller = call.caller] {
                   return all_nodes(members, jobs, now, caller);
                 });
}

net::HttpResponse get_jobs(const Call& call) {
  return list_of(call, call.jobs.jobs().size(),
                 [&jobs = call.jobs, caller = call.caller] { return all_jobs(jobs, caller); });
}

// What `body` answers of the job that the path names.
template <auto body>
net::HttpResponse of_job(const Call& call) {
  JobRun* job = call.jobs.find(call.job_name);
  const auto stored = call.jobs.unloaded().find(call.job_name);
  if (stored != call.jobs.unloaded().end() && call.caller.sees(stored->second.tenant)) {
    return failure(503,
                   "job " + call.job_name + " is stored and goes on once there is room for it: " + stored->second.why);
  }
  if (job == nullptr || !call.caller.sees(job->state().tenant))
    return failure(404, "there is no job " + call.job_name + "; GET /v1/jobs lists those there are");
  return body(call, *job);
}

net::HttpResponse refused(const Call& call, const std::string& what, const std::string& job, std::int64_t run,
                          int status, const std::string& why) {
  const Status stored = call.services.store.add_audit(
      {kCoordinatorActor, "refuse to " + what, job, run, first_of(why, kLongestWhy), tenant_of(call, run)},
      call.services.clock.wall().count());
  return failure(stored.ok() ? status : 503, why);
}

template <bool may_tune>
net::HttpResponse take_job(const Call& call, const Result<Submission>& submission) {
  if (!submission.ok()) {
    const std::string by = call.caller.name.empty() ? "" : " of " + call.caller.name;
    call.services.refusals.refused("job", call.request.address,
                                   "POST " + call.request.path + by + ": " + submission.error().message);
    return failure(submission.error());
  }
  const std::string what =
      submission->tune && may_tune ? "hand in a job to tune, mode " : "hand in a job to profile, mode ";
  const Status asked = order_asked(call, what + std::string(to_string(submission->job.mode)), submission->job.name, 0);
  if (!asked.ok()) return failure(asked.error());
  const auto submitted = call.jobs.submit(submission->job, submission->tune && may_tune, call.caller.tenant);
  if (!submitted.ok()) {
    const int status = failure(submitted.error()).status;
    return refused(call, "take the job", submission->job.name, 0, status, submitted.error().message);
  }
  return {submitted->was_running ? 200 : 201, "application/json", submitted_document(*submitted)};
}

// A larger one is read off the loop.
constexpr std::size_t kSmallBody = std::size_t{64} << 10;

template <bool may_tune>
net::HttpResponse submit(const Call& call) {
  if (call.request.body.size() <= kSmallBody) return take_job<may_tune>(call, parse_submission(call.request.body));
  const auto request = std::make_shared<net::HttpRequest>(call.request);
  const auto take = [request, &services = call.services, &jobs = call.jobs, now = call.now, up = call.up,
                     caller = call.caller](const Result<Submission>& submission) {
    return take_job<may_tune>({*request, services, jobs, now, up, "", caller}, submission);
  };
  if (call.services.answers == nullptr) return take(parse_submission(request->body));
  return in_turn(call, [request, take]() -> AnswerWorker::Making {
    return [request, take] {
      const auto read = std::make_shared<Result<Submission>>(parse_submission(request->body));
      net::HttpResponse response;
      response.later = [take, read](const net::HttpResponse::Answer& answer) { answer(take(*read)); };
      return response;
    };
  });
}

net::HttpResponse get_events(const Call& call, const JobRun& job) {
  const auto after = after_of(call);
  if (!after.ok()) return failure(after.error());
  return answer_of(call.services.store.events(job.run(), *after, 1000), events_document);
}

net::HttpResponse get_audit(const Call& call) {
  const auto after = after_of(call);
  if (!after.ok()) return failure(after.error());
  const std::string job = argument(call, "job");
  const JobRun* known = call.jobs.find(job);
  if (!call.caller.sees_all() && (known == nullptr || !call.caller.sees(known->state().tenant))) {
    return failure(403, "the audit log of all jobs is for those who see all of them; name one of yours with job=");
  }
  std::optional<AuditReader> reader;
  if (!call.caller.sees_all()) reader = AuditReader{call.caller.tenant, known->run()};
  return answer_of(call.services.store.audit(job, *after, 1000, reader), audit_document);
}

// Of a run as it is stored; `document` runs off the loop.
template <typename Document>
AnswerWorker::Making read_stored(const std::string& database, std::int64_t run, Document document) {
  return [database, run, document] {
    const auto store = StateStore::open_to_read(database);
    if (!store.ok()) return failure(store.error());
    const auto stored = store->job(run);
    return stored.ok() ? document(*store, *stored) : failure(stored.error());
  };
}

// Of a job that is over, whose documents are in the database alone.
template <typename Document>
net::HttpResponse of_shelved(const Call& call, const JobRun& job, Document document) {
  return in_turn(call, [database = call.services.store.name(), run = job.run(), document] {
    return read_stored(database, run, document);
  });
}

net::HttpResponse get_trials(const Call& call, const JobRun& job) {
  if (job.is_shelved()) {
    return of_shelved(call, job,
                      [all = call.request.query.contains("all")](const StateStore& store, const StoredJob& stored) {
                        if (!all) return ok(trials_document(stored.state, {}));
                        const auto earlier = store.earlier_trials(stored.run);
                        return earlier.ok() ? ok(trials_document(stored.state, *earlier)) : failure(earlier.error());
                      });
  }
  if (!call.request.query.contains("all")) return ok(trials_document(job.state(), {}));
  const auto earlier = call.services.store.earlier_trials(job.run());
  return earlier.ok() ? ok(trials_document(job.state(), *earlier)) : failure(earlier.error());
}

std::string in_phase(const JobRun& job) {
  return " (phase " + std::string(to_string(job.state().phase)) + ")";
}

net::HttpResponse make_report(const StateStore& store, std::int64_t run, const TuningState& state,
                              const std::string& timelines_json) {
  const auto steps = store.steps(run);
  if (!steps.ok()) return failure(steps.error());
  const auto earlier = store.earlier_trials(run);
  if (!earlier.ok()) return failure(earlier.error());
  return ok(report_json(state, timelines_json, *steps, *earlier));
}

net::HttpResponse stored_report(const StateStore& store, const StoredJob& stored) {
  return make_report(store, stored.run, stored.state, stored.documents.timelines_json);
}

net::HttpResponse get_report(const Call& call, const JobRun& job) {
  if (job.state().initial.hash.empty()) {
    return failure(404,
                   "job " + job.name() + " has no report yet" + in_phase(job) + ": it begins with the first search");
  }
  if (job.is_shelved()) return of_shelved(call, job, stored_report);
  return in_turn(call,
                 [&jobs = call.jobs, database = call.services.store.name(), run = job.run()]() -> AnswerWorker::Making {
                   const JobRun* const there = jobs.find_run(run);
                   if (there == nullptr) return [] { return failure(404, "the job has been forgotten meanwhile"); };
                   if (there->is_shelved()) return read_stored(database, run, stored_report);
                   return [database, run, state = there->state(), timelines = there->timelines_json()] {
                     const auto store = StateStore::open_to_read(database);
                     return store.ok() ? make_report(*store, run, state, timelines) : failure(store.error());
                   };
                 });
}

net::HttpResponse get_card(const Call&, const JobRun& job) {
  std::string card = job.card().json();
  if (!card.empty()) return ok(std::move(card));
  const char* const lost = job.active() ? "" : ", or what was stored of it is damaged (trimtab_database_set_apart)";
  return failure(404, "job " + job.name() + " has no card" + (job.active() ? " yet" : "") + in_phase(job) +
                          ": no rank has told of a step" + lost);
}

// Why it cannot be obeyed; empty = it can.
std::string objection(const JobRun& job, Order order) {
  const std::string name = "job " + job.name();
  if (!job.active()) return name + " is over" + in_phase(job);
  if (job.state().watched) {
    const std::string what = order == Order::kStop ? "Stop it where you launched it"
                                                   : "To have its plan tuned, let Trimtab launch it (trimtab init)";
    return name + " was launched by its user: Trimtab watches it, and neither ends nor changes it. " + what;
  }
  if (order == Order::kOwnPlan && job.state().job.mode == JobMode::kObserve) {
    return name + " runs the plan that it began with: mode observe changes none";
  }
  if (order != Order::kApprove) return "";
  if (job.state().doing != Doing::kAwaitingApproval) return name + " has no trial that awaits approval";
  if (job.state().frozen) return name + " is frozen; unfreeze it first";
  return job.tuning().held_by().empty() ? "" : name + ": " + job.tuning().held_by();
}

const char* words_of(Order order) {
  if (order == Order::kStop) return "stop the job";
  if (order == Order::kApprove) return "approve the trial";
  if (order == Order::kOwnPlan) return "go back to the plan that the job began with, and keep it";
  return order == Order::kFreeze ? "freeze the job" : "unfreeze the job";
}

template <Order order>
net::HttpResponse obey(const Call& call, JobRun& job) {
  const std::string what = words_of(order);
  if (const std::string why = objection(job, order); !why.empty()) {
    const Status asked = order_asked(call, what, job.name(), job.run());
    if (!asked.ok()) return failure(asked.error());
    return refused(call, what, job.name(), job.run(), 409, why);
  }
  const Status taken = job.obey(order, order_of(call, what, job.name(), job.run()));
  if (!taken.ok()) return failure(taken.error());
  net::HttpResponse answer = ok(job_document(job));
  if (!job.storage_failure().empty()) answer.status = 202;  // it waits, and a coordinator that ends now forgets it
  return answer;
}

net::HttpResponse get_job(const Call& call, const JobRun& job) {
  if (!job.is_shelved()) return ok(job_document(job));
  return of_shelved(call, job, [known = known_of(job)](const StateStore&, const StoredJob& stored) {
    return ok(job_document(known, stored.state));
  });
}
const Plan* running_plan(const TuningState& state) {
  const std::string* const hash = state.hash_of(state.committed_epoch);
  if (hash == nullptr) return nullptr;
  if (state.incumbent.hash == *hash) return state.incumbent.said();
  const bool tried = !state.trials.empty() && state.trials.back().plan.hash == *hash;
  return tried ? state.trials.back().plan.said() : nullptr;
}

net::HttpResponse get_live(const Call& call, const JobRun& job) {
  return ok(call.services.live.document(job.name(), call.now, running_plan(job.state())));
}

net::HttpResponse post_trace(const Call& call, const JobRun& job) {
  if (!job.active()) return failure(409, "job " + job.name() + " is over" + in_phase(job));
  const auto request = parse_trace_request(call.request.body);
  if (!request.ok()) return failure(request.error());
  std::vector<std::string> nodes;
  for (const NodeShare& share : job.state().nodes) {
    if (std::ranges::find(nodes, share.node) == nodes.end()) nodes.push_back(share.node);
  }
  if (nodes.empty()) return failure(409, "job " + job.name() + " has no nodes yet");
  const Status asked = order_asked(call, "take a trace", job.name(), job.run());
  if (!asked.ok()) return failure(asked.error());
  const auto id =
      call.services.traces.start({job.name(), job.state().tenant}, nodes, *request, call.services.clocks.latest());
  if (!id.ok()) {
    return refused(call, "take a trace", job.name(), job.run(), failure(id.error()).status, id.error().message);
  }
  return {201, "application/json", call.services.traces.document(*id).value_or("{}")};
}

net::HttpResponse no_trace(const Call& call) {
  return failure(404, "there is no trace " + call.job_name + "; it is over, or nobody asked for it during a minute");
}

// The number that the path names; 0, which no trace has, for one of another tenant's job.
std::uint64_t trace_of(const Call& call) {
  const std::uint64_t id = parse_number<std::uint64_t>(call.job_name).value_or(0);
  const auto name = call.services.traces.job_of(id);
  const JobRun* job = name ? call.jobs.find(*name) : nullptr;
  const bool seen = call.caller.sees_all() || (job != nullptr && call.caller.sees(job->state().tenant));
  return seen ? id : 0;
}

net::HttpResponse get_trace(const Call& call) {
  // Of the few traces that there may be none stays because somebody looks on.
  if (net::may(call.caller.role, net::Role::kOperate)) call.services.traces.wanted(trace_of(call));
  const auto document = call.services.traces.document(trace_of(call));
  return document ? ok(*document) : no_trace(call);
}

net::HttpResponse get_trace_chunk(const Call& call) {
  const auto wanted = parse_number<std::uint64_t>(argument(call, "number"));
  if (!wanted) return failure(400, "number: which chunk is needed, from 0");
  auto chunk = call.services.traces.fetch(trace_of(call), *wanted);
  if (!chunk.ok()) return failure(chunk.error());
  if (!*chunk) return no_trace(call);
  return {200, "application/octet-stream", std::move(**chunk)};
}

struct Route {
  std::string_view method;
  std::string_view path;  // {id} matches one segment
  net::HttpResponse (*handle)(const Call&);
  Need need = Need::kView;
  bool of_all_tenants = false;
};

constexpr Route kRoutes[] = {
    {"GET", "/",
     [](const Call&) {
       return net::HttpResponse{200, "text/html; charset=utf-8", kStatusPage[0]};
     },
     Need::kOpen},
    {"GET", "/metrics",
     [](const Call& call) {
       return net::HttpResponse{200, "text/plain; version=0.0.4", metrics_text(call.services, call.jobs)};
     },
     Need::kView, true},
    {"GET", "/v1/status", get_status},
    {"GET", "/v1/nodes", get_nodes},
    {"GET", "/v1/jobs", get_jobs},
    {"POST", "/v1/jobs", submit<true>, Need::kOperate},
    {"POST", "/v1/profile", submit<false>, Need::kOperate},
    {"GET", "/v1/costs", get_costs, Need::kReadCosts, true},
    {"GET", "/v1/costs/parts", get_cost_parts, Need::kReadCosts, true},
    {"POST", "/v1/costs", take_costs, Need::kContribute, true},
    {"POST", "/v1/costs/remove", remove_costs, Need::kOperate, true},
    {"GET", "/v1/audit", get_audit},
    {"GET", "/v1/jobs/{id}", of_job<get_job>},
    {"GET", "/v1/jobs/{id}/events", of_job<get_events>},
    {"GET", "/v1/jobs/{id}/trials", of_job<get_trials>},
    {"GET", "/v1/jobs/{id}/report", of_job<get_report>},
    {"GET", "/v1/jobs/{id}/card", of_job<get_card>},
    {"GET", "/v1/jobs/{id}/live", of_job<get_live>},
    {"POST", "/v1/jobs/{id}/trace", of_job<post_trace>, Need::kOperate},
    {"GET", "/v1/traces/{id}", get_trace},
    {"GET", "/v1/traces/{id}/chunk", get_trace_chunk, Need::kOperate},
    {"POST", "/v1/traces/{id}/finish",
     [](const Call& call) { return call.services.traces.finish(trace_of(call)) ? ok("{}") : no_trace(call); },
     Need::kOperate},
    {"POST", "/v1/jobs/{id}/stop", of_job<obey<Order::kStop>>, Need::kOperate},
    {"POST", "/v1/jobs/{id}/approve", of_job<obey<Order::kApprove>>, Need::kOperate},
    {"POST", "/v1/jobs/{id}/freeze", of_job<obey<Order::kFreeze>>, Need::kOperate},
    {"POST", "/v1/jobs/{id}/unfreeze", of_job<obey<Order::kUnfreeze>>, Need::kOperate},
    {"POST", "/v1/jobs/{id}/own-plan", of_job<obey<Order::kOwnPlan>>, Need::kOperate}};

// True when the path fits; then `id` is what stands for {id}.
bool fits(std::string_view route, std::string_view path, std::string& id) {
  const auto hole = route.find("{id}");
  if (hole == std::string_view::npos) return route == path;
  const std::string_view before = route.substr(0, hole);
  const std::string_view after = route.substr(hole + 4);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after)) return false;
  const std::string_view middle = path.substr(before.size(), path.size() - before.size() - after.size());
  if (middle.find('/') != std::string_view::npos) return false;
  id = middle;
  return true;
}

// The route of this method and path, or nullptr; `path_known` where another method would do.
const Route* route_of(const net::HttpRequest& request, std::string& id, bool& path_known) {
  for (const Route& route : kRoutes) {
    if (!fits(route.path, request.path, id)) continue;
    path_known = true;
    if (route.method == request.method) return &route;
  }
  return nullptr;
}

// What orders of one tenant may cost all others: entries of the audit log, a few KiB each, and bodies, of which a MiB
// takes the loop 50 ms. A thousand orders and 32 MiB may come at once.
constexpr std::uint32_t kOrdersPerSecond = 2;
constexpr std::chrono::seconds kOrderBurst(500);
constexpr std::uint32_t kKibibytesPerSecond = 1024;
constexpr std::chrono::seconds kBodyBurst(32);

std::string kibibytes(std::int64_t count) {
  return format_bytes(Bytes{1024} * count);
}

}  // namespace

Api::Api(Services& services, JobTable& jobs, const Access& access, std::uint32_t requests_per_second)
    : services_(services),
      jobs_(jobs),
      access_(access),
      rate_(requests_per_second),
      orders_(kOrdersPerSecond, kOrderBurst),
      bodies_(kKibibytesPerSecond, kBodyBurst),
      begun_(services.clock.monotonic()) {}

std::optional<net::HttpResponse> Api::admit(const net::HttpRequest& head) {
  std::optional<Denial> denial;
  if (head.upgrade) {
    denial = access_.agent(head);
  } else {
    std::string id;
    bool path_known = false;
    const Route* route = route_of(head, id, path_known);
    const auto answer = access_.person(head, route == nullptr ? Need::kView : route->need);
    if (auto later = check_rate(head, answer.caller)) return later;
    denial = answer.denial;
    if (!denial && route != nullptr && route->of_all_tenants && !answer.caller.sees_all()) {
      denial = Denial{403, std::string(route->path) + " tells of all tenants' jobs, but " + answer.caller.name +
                               " sees those of " + answer.caller.tenant + " alone"};
    }
  }
  if (!denial) return std::nullopt;
  services_.refusals.refused(denial->status == 401 ? "unauthenticated" : "forbidden", head.address,
                             head.method + " " + head.path + ": " + denial->reason);
  return failure(denial->status, denial->reason);
}

// Who has shown no token that is known counts by the address.
std::optional<net::HttpResponse> Api::check_rate(const net::HttpRequest& head, const Caller& caller) {
  const std::string host = head.address.substr(0, head.address.rfind(':'));
  const std::string whom = caller.name.empty() ? "address " + host : "person " + caller.name;
  if (rate_.take(whom, services_.clock.monotonic())) return std::nullopt;
  return too_often(head, whom + " asks more often than max_request_rate lets it", "ask again in a second");
}

net::HttpResponse Api::too_often(const net::HttpRequest& request, const std::string& reason, const char* remedy) {
  services_.refusals.refused("rate", request.address, request.method + " " + request.path + ": " + reason);
  return failure(429, reason + ": " + remedy);
}

std::optional<net::HttpResponse> Api::check_orders(const net::HttpRequest& request, const Caller& caller,
                                                   bool audited) {
  if (request.method != "POST") return std::nullopt;
  const Nanoseconds now = services_.clock.monotonic();
  // Who is of no single tenant pays alone: else one contributor could keep administrators out.
  const std::string whom = caller.tenant == net::kEveryTenant ? "person " + caller.name : "tenant " + caller.tenant;
  const bool often = audited && !orders_.take(whom, now);
  if (!often && bodies_.take(whom, now, 1 + request.body.size() / 1024)) return std::nullopt;
  const std::string orders = "given " + std::to_string(kOrdersPerSecond * kOrderBurst.count()) +
                             " orders, and may give " + std::to_string(kOrdersPerSecond);
  const std::string bodies = "sent " + kibibytes(kKibibytesPerSecond * kBodyBurst.count()) +
                             " with its orders, and may send " + kibibytes(kKibibytesPerSecond);
  const std::string reason = whom + " has " + (often ? orders : bodies) + " a second from now on";
  return too_often(request, reason, "nothing is done; try again later");
}

std::vector<std::pair<std::string, std::string>> Api::routes() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Route& route : kRoutes) all.emplace_back(route.method, route.path);
  return all;
}

net::HttpResponse Api::handle(const net::HttpRequest& request) {
  bool path_known = false;
  std::string id;
  if (const Route* route = route_of(request, id, path_known)) {
    const auto answer = access_.person(request, route->need);
    if (answer.denial) return failure(answer.denial->status, answer.denial->reason);  // the token went meanwhile
    if (auto later = check_orders(request, answer.caller, route->need != Need::kContribute)) return *later;
    const Nanoseconds now = services_.clock.monotonic();
    net::HttpResponse told =
        route->handle({request, services_, jobs_, now, now - begun_, std::move(id), answer.caller});
    if (!answer.caller.sees_output()) told.body = without_rank_output(std::move(told.body));
    return told;
  }
  if (path_known) return failure(405, request.method + " is not possible at " + request.path);
  return failure(404, "there is nothing at " + request.path);
}

}  // namespace trimtab::coordinator
