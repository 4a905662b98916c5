#include "api/job_documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report.hpp"
#include "schema/api/costs.hpp"
#include "schema/api/history.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"
#include "schema/json_nesting.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr double kMostSeconds = 600;  // of a trace
constexpr std::uint32_t kMostSteps = 10'000;

// The object that a request's body must be; `needed` is the error where it is none.
Result<json> parse_body(const std::string& body, const std::string& needed) {
  if (!json_nested_within(body)) return bad_input("the body is " + json_nesting_refusal());
  json document = json::parse(body, nullptr, false);
  if (!document.is_object()) return bad_input(needed);
  return document;
}

// An agent's instance is what another could pass itself off with.
std::vector<api::Node> nodes_of(const Membership& members, Nanoseconds now, const Caller& caller) {
  std::vector<api::Node> nodes;
  for (const auto& [name, member] : members.members()) {
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

api::Job document_of(const JobRun& job) {
  const TuningState& state = job.state();
  api::Job document;
  static_cast<api::JobSummary&>(document) = summary_of(job);
  document.fingerprint = state.fingerprint;
  document.launch = state.launch;
  document.evaluations = state.search.evaluations;
  document.incumbent = {state.incumbent.hash, api::CarriedPlan{{state.incumbent.json}},
                        state.incumbent_predicted.mean_ms, state.incumbent_measured.mean_ms};
  document.initial = {state.initial.hash, std::nullopt, state.initial_predicted.mean_ms,
                      state.initial_measured.mean_ms};
  document.best_prediction_ms = best_prediction(state);
  document.recommendation.json = state.recommendation_json;
  if (!job.tuning().log_of_rank_0().empty()) document.rank_0_log = job.tuning().log_of_rank_0();
  if (state.has_trial()) document.trial = document_of(state.trials.back());
  if (state.doing == Doing::kAwaitingApproval) document.awaiting_approval = document_of(state.trials.back());
  return document;
}

}  // namespace

Result<Submission> parse_submission(const std::string& body) {
  const std::string needed = R"(the body must be {"job": {…}, "tune": true})";
  TRIMTAB_TRY(const json document, parse_body(body, needed));
  if (!document.contains("job")) return bad_input(needed);
  const auto tune = document.find("tune");
  if (tune != document.end() && !tune->is_boolean()) return bad_input("tune: true or false is needed");
  Submission submission;
  submission.tune = tune == document.end() || tune->get<bool>();
  TRIMTAB_TRY(submission.job, parse_job(document["job"].dump(-1, ' ', false, json::error_handler_t::replace), "job"));
  return submission;
}

Result<TraceRequest> parse_trace_request(const std::string& body) {
  TRIMTAB_TRY(const json document, parse_body(body, R"(a trace needs {"seconds": 5} or {"steps": 3})"));
  const bool by_seconds = document.contains("seconds");
  if (by_seconds == document.contains("steps")) return bad_input("a trace needs either seconds or steps");
  TraceRequest request;
  if (by_seconds) {
    const json& seconds = document["seconds"];
    request.seconds = seconds.is_number() ? seconds.get<double>() : 0;
    if (request.seconds > 0 && request.seconds <= kMostSeconds) return request;
    return bad_input("seconds: expected a number above 0, at most 600, found " + seconds.dump());
  }
  const json& steps = document["steps"];
  const std::uint64_t count = steps.is_number_unsigned() ? steps.get<std::uint64_t>() : 0;
  if (count < 1 || count > kMostSteps) {
    return bad_input("steps: expected an integer from 1 to 10000, found " + steps.dump());
  }
  request.steps = static_cast<std::uint32_t>(count);
  return request;
}

std::string error_document(const std::string& message) {
  return api::to_json(api::Refusal{message});
}

std::string status_document(const Membership& members, const JobTable& jobs, Nanoseconds now, Nanoseconds up,
                            const Caller& caller) {
  return api::to_json(api::ClusterStatus{TRIMTAB_RELEASE, kSpokenVersions.newest,
                                         std::chrono::duration<double>(up).count(), nodes_of(members, now, caller),
                                         summaries_of(jobs, caller)});
}

std::string nodes_document(const Membership& members, Nanoseconds now, const Caller& caller) {
  return api::to_json(api::Nodes{nodes_of(members, now, caller)});
}

std::string jobs_document(const JobTable& jobs, const Caller& caller) {
  return api::to_json(api::Jobs{summaries_of(jobs, caller)});
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
  for (const EarlierTrial& trial : earlier) document.trials.push_back(document_of(trial));
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

std::string costs_document(const std::string& fingerprint, const std::vector<Cost>& costs) {
  api::Costs document{fingerprint, {}};
  for (const Cost& cost : costs) {
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

std::string fingerprints_document(const std::vector<Fingerprint>& fingerprints) {
  api::Fingerprints document;
  for (const Fingerprint& one : fingerprints) document.fingerprints.push_back({hash(one), {to_json(one)}});
  return api::to_json(document);
}

}  // namespace trimtab::coordinator
