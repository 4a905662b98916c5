#include "api/job_documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report.hpp"
#include "schema/api/costs.hpp"
#include "schema/api/history.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"
#include "schema/api/submission.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr double kMostSeconds = 600;  // of a trace
constexpr std::uint32_t kMostSteps = 10'000;

// Values of a body: each takes a multiple of its text while it is read.
constexpr std::size_t kMostValues = 500'000;

// Not less than there are. One look at each byte.
std::size_t most_values_of(const std::string& text) {
  std::size_t values = 1;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\') ++i;
    if (c == '"') in_text = !in_text;
    if (!in_text && (c == ',' || c == '[' || c == '{')) ++values;
  }
  return values;
}

// The object that a request's body must be; `needed` is the error where it is none.
Result<json> parse_body(const std::string& body, const std::string& needed) {
  if (!json_nested_within(body)) return bad_input("the body is " + json_nesting_refusal());
  if (const std::size_t values = most_values_of(body); values > kMostValues) {
    return bad_input("the body has about " + std::to_string(values) + " values, and at most " +
                     std::to_string(kMostValues) + " are read: make the job's model, plan or lists shorter");
  }
  if (const auto repeated = repeated_json_field(body)) return bad_input("the body: " + *repeated);
  json document = json::parse(body, nullptr, false);
  if (!document.is_object()) return bad_input(needed);
  return document;
}

// Whoever may connect can leave lost names: of those a tenant is shown its own, and those that its jobs have.
bool shows(const Member& member, const std::set<std::string>& of_jobs, const Caller& caller) {
  return !member.lost || caller.sees(member.tenant) || of_jobs.contains(member.node);
}

// An agent's instance is what another could pass itself off with.
std::vector<api::Node> nodes_of(const Membership& members, const JobTable& jobs, Nanoseconds now,
                                const Caller& caller) {
  std::set<std::string> of_jobs;
  for (const auto& [name, job] : jobs.jobs()) {
    if (!job->active() || !caller.sees(job->state().tenant)) continue;
    for (const NodeShare& share : job->state().nodes) of_jobs.insert(share.node);
  }
  std::vector<api::Node> nodes;
  for (const auto& [name, member] : members.members()) {
    if (!shows(member, of_jobs, caller)) continue;
    api::Node& node = nodes.emplace_back();
    node.name = name;
    node.state = member.state();
    node.devices = member.devices;
    node.memory_bytes = member.memory_bytes;
    node.fingerprint = member.fingerprint;
    node.release = member.release;
    node.kill_switch = member.kill_switch;
    node.tenant = member.tenant.empty() ? net::kEveryTenant : member.tenant;
    node.silent_s = std::chrono::duration<double>(now - member.heard).count();
    if (caller.sees_all()) node.instance = member.instance;
  }
  return nodes;
}

api::JobSummary summary_of(const JobRun& job) {
  const TuningState& state = job.state();
  const Progress progress = job.tuning().progress();
  return {.name = job.name(),
          .run = job.run(),
          .phase = state.phase,
          .doing = state.doing,
          .active = job.active(),
          .mode = std::string(to_string(state.job.mode)),
          .watched = state.watched,
          .tenant = state.tenant,
          .tune = state.tune,
          .frozen = state.frozen,
          .held_by = job.tuning().held_by(),
          .waits_for = job.waits_for(),
          .progress = {progress.done, progress.total, progress.what},
          .step = state.step,
          .steps = state.job.steps,
          .loss = state.loss,
          .step_ms = state.step_ms,
          .trials = state.trials_begun(),
          .gain = document_of(job.gain()),
          .overhead = overhead_of(state),
          .failure = state.failure,
          .conclusion = state.conclusion,
          .report_complete = job.report_complete(),
          .storage_failure = job.storage_failure()};
}

std::vector<api::JobSummary> summaries_of(const JobTable& jobs, const Caller& caller) {
  std::vector<api::JobSummary> list;
  for (const auto& [name, job] : jobs.jobs()) {
    if (caller.sees(job->state().tenant)) list.push_back(summary_of(*job));
  }
  return list;
}

api::Trial document_of(const Trial& trial) {
  return {.id = trial.id,
          .hash = trial.plan.hash,
          .plan = {{trial.plan.json}},
          .state = trial.state,
          .reason = trial.reason.text(),
          .predicted_ms = trial.predicted.mean_ms,
          .measured_ms = trial.measured.mean_ms,
          .message = trial.message,
          .predicted_interval_ms = interval_of(trial.predicted),
          .stages = trial_stages(trial),
          .incumbent_ms = trial.incumbent.mean_ms,
          .speedup = document_of(trial.ratio),
          .switch_ms = trial.switch_ms,
          .switch_phases_ms = document_of(trial.change_phases),
          .break_even_steps = trial.break_even_steps,
          .steps = trial.steps};
}

api::Trial document_of(const EarlierTrial& trial) {
  api::Trial document;
  document.id = trial.id;
  document.hash = trial.plan_hash;
  document.state = api::Word<TrialState>(trial.state);
  document.reason = trial.reason;
  document.predicted_ms = trial.predicted_ms;
  document.measured_ms = trial.measured_ms;
  return document;
}

// What somebody may hope for: the incumbent's time, or that of a plan under trial which looks better.
double best_prediction(const TuningState& state) {
  const double best = state.incumbent_predicted.mean_ms;
  if (state.trials.empty()) return best;
  const double tried = state.trials.back().predicted.mean_ms;
  return best > 0 ? std::min(best, tried) : tried;
}

void add_documents(api::Job& document, const TuningState& state) {
  document.fingerprint = state.fingerprint;
  document.launch = state.launch;
  document.evaluations = state.search.evaluations;
  document.incumbent = {state.incumbent.hash, api::CarriedPlan{{state.incumbent.json}},
                        state.incumbent_predicted.mean_ms, state.incumbent_measured.mean_ms};
  document.initial = {state.initial.hash, std::nullopt, state.initial_predicted.mean_ms,
                      state.initial_measured.mean_ms};
  document.best_prediction_ms = best_prediction(state);
  document.recommendation.json = state.recommendation_json;
  if (state.has_trial()) document.trial = document_of(state.trials.back());
  if (state.doing == Doing::kAwaitingApproval) document.awaiting_approval = document_of(state.trials.back());
}

api::Job document_of(const JobRun& job) {
  api::Job document = known_of(job);
  add_documents(document, job.state());
  return document;
}

}  // namespace

api::Job known_of(const JobRun& job) {
  api::Job document;
  static_cast<api::JobSummary&>(document) = summary_of(job);
  if (!job.tuning().log_of_rank_0().empty()) document.rank_0_log = job.tuning().log_of_rank_0();
  return document;
}

std::string job_document(api::Job known, const TuningState& state) {
  add_documents(known, state);
  return api::to_json(known);
}

Result<Submission> parse_submission(const std::string& body) {
  const std::string needed = R"(the body must be {"job": {…}, "tune": true})";
  TRIMTAB_TRY(const json document, parse_body(body, needed));
  const auto job = document.find(api::name_of(&api::Submission::job));
  if (job == document.end()) return bad_input(needed);
  const auto tune = document.find(api::name_of(&api::Submission::tune));
  if (tune != document.end() && !tune->is_boolean()) return bad_input("tune: true or false is needed");
  Submission submission;
  submission.tune = tune == document.end() || tune->get<bool>();
  TRIMTAB_TRY(submission.job, parse_job(job->dump(-1, ' ', false, json::error_handler_t::replace), "job"));
  return submission;
}

Result<TraceRequest> parse_trace_request(const std::string& body) {
  TRIMTAB_TRY(const json document, parse_body(body, R"(a trace needs {"seconds": 5} or {"steps": 3})"));
  const auto seconds = document.find(api::name_of(&api::TraceRequest::seconds));
  const auto steps = document.find(api::name_of(&api::TraceRequest::steps));
  const bool by_seconds = seconds != document.end();
  if (by_seconds == (steps != document.end())) return bad_input("a trace needs either seconds or steps");
  TraceRequest request;
  if (by_seconds) {
    request.seconds = seconds->is_number() ? seconds->get<double>() : 0;
    if (request.seconds > 0 && request.seconds <= kMostSeconds) return request;
    return bad_input("seconds: expected a number above 0, at most 600, found " + seconds->dump());
  }
  const std::uint64_t count = steps->is_number_unsigned() ? steps->get<std::uint64_t>() : 0;
  if (count < 1 || count > kMostSteps) {
    return bad_input("steps: expected an integer from 1 to 10000, found " + steps->dump());
  }
  request.steps = static_cast<std::uint32_t>(count);
  return request;
}

std::string error_document(const std::string& message) {
  return api::to_json(api::Refusal{message});
}

api::ClusterStatus status_of(const Membership& members, const JobTable& jobs, Nanoseconds now, Nanoseconds up,
                             const Caller& caller, std::string storage_failure) {
  std::optional<std::string> failure;
  if (!storage_failure.empty()) failure = std::move(storage_failure);
  return {TRIMTAB_RELEASE,
          kSpokenVersions.newest,
          std::chrono::duration<double>(up).count(),
          std::move(failure),
          nodes_of(members, jobs, now, caller),
          summaries_of(jobs, caller)};
}

api::Nodes all_nodes(const Membership& members, const JobTable& jobs, Nanoseconds now, const Caller& caller) {
  return {nodes_of(members, jobs, now, caller)};
}

api::Jobs all_jobs(const JobTable& jobs, const Caller& caller) {
  return {summaries_of(jobs, caller)};
}

std::string job_document(const JobRun& job) {
  return api::to_json(document_of(job));
}

std::string submitted_document(const Submitted& submitted) {
  api::Job document = document_of(*submitted.job);
  document.was_running = submitted.was_running;
  return api::to_json(document);
}

std::string trials_document(const TuningState& state, const std::vector<EarlierTrial>& earlier) {
  api::Trials document;
  for (const EarlierTrial& trial : without_kept(earlier, state)) document.trials.push_back(document_of(trial));
  for (const Trial& trial : state.trials) document.trials.push_back(document_of(trial));
  return api::to_json(document);
}

std::string events_document(const std::vector<StoredEvent>& events) {
  api::Events document;
  for (const StoredEvent& one : events) {
    document.events.push_back({one.sequence, one.at_ns, one.note.kind, one.note.text, {one.note.data_json}});
  }
  return api::to_json(document);
}

std::string audit_document(const std::vector<StoredAudit>& entries) {
  api::Audit document;
  for (const auto& [entry, at_ns, audit] : entries) {
    document.entries.push_back({entry, at_ns, audit.who, audit.what, audit.job, audit.run, audit.why});
  }
  return api::to_json(document);
}

std::string costs_document(const std::string& fingerprint, const CostPage& page) {
  api::Costs document{fingerprint, {}, std::nullopt};
  if (page.next != 0) document.next = page.next;
  for (const Cost& cost : page.costs) {
    const Statistics& statistics = cost.statistics;
    document.costs.push_back({{to_json(cost.key)},
                              to_text(cost.source),
                              std::string(unit_of(cost.key.kind)),
                              statistics.count(),
                              statistics.mean(),
                              statistics.standard_error(),
                              statistics.min(),
                              statistics.max(),
                              statistics.median()});
  }
  return api::to_json(document);
}

std::string fingerprints_document(const std::vector<Fingerprint>& fingerprints, bool is_last) {
  api::Fingerprints document;
  for (const Fingerprint& one : fingerprints) document.fingerprints.push_back({hash(one), {to_json(one)}});
  if (!is_last && !document.fingerprints.empty()) document.next = document.fingerprints.back().hash;
  return api::to_json(document);
}

}  // namespace trimtab::coordinator
