#include "api/job_documents.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "api/request_body.hpp"
#include "net/tokens.hpp"
#include "report.hpp"
#include "trial_stages.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

std::string text(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

json carried(const std::string& document) {
  if (document.empty()) return nullptr;
  json parsed = json::parse(document, nullptr, false);
  return parsed.is_discarded() ? json(document) : parsed;
}

// An agent's instance is what another could pass itself off with.
json nodes_json(const Services& services, const Caller& caller) {
  json nodes = json::array();
  for (const auto& [name, member] : services.members.members()) {
    const double silent = std::chrono::duration<double>(services.clock.monotonic() - member.heard).count();
    nodes.push_back({{"name", name},
                     {"state", member.lost        ? "lost"
                               : member.peer != 0 ? "connected"
                                                  : "disconnected"},
                     {"devices", member.devices},
                     {"memory_bytes", member.memory_bytes},
                     {"fingerprint", member.fingerprint},
                     {"release", member.release},
                     {"kill_switch", member.kill_switch},
                     {"tenant", member.tenant.empty() ? net::kEveryTenant : member.tenant},
                     {"silent_s", silent}});
    if (caller.sees_all()) nodes.back()["instance"] = member.instance;
  }
  return nodes;
}

json summary_json(const JobRun& job) {
  const TuningState& state = job.state();
  const Progress progress = job.progress();
  return {
      {"name", job.name()},
      {"run", job.run()},
      {"phase", to_string(state.phase)},
      {"doing", to_string(state.doing)},
      {"active", job.active()},
      {"mode", to_string(state.job.mode)},
      {"tenant", state.tenant},
      {"tune", state.tune},
      {"frozen", state.frozen},
      {"held_by", job.held_by()},
      {"waits_for", job.waits_for()},
      {"progress", {{"done", progress.done}, {"total", progress.total}, {"what", progress.what}}},
      {"step", state.step},
      {"steps", state.job.steps},
      {"loss", state.loss},
      {"step_ms", state.step_ms},
      {"trials", state.trials_begun()},
      {"overhead",
       {{"ms", state.overhead_ms()}, {"share", state.overhead_share()}, {"allowed_share", state.job.trials.overhead}}},
      {"failure", state.failure},
      {"conclusion", state.conclusion},
      {"report_complete", job.report_complete()},
      {"storage_failure", job.storage_failure()}};
}

json jobs_json(const JobTable& jobs, const Caller& caller) {
  json list = json::array();
  for (const auto& [name, job] : jobs.jobs()) {
    if (caller.sees(job->state().tenant)) list.push_back(summary_json(*job));
  }
  return list;
}

json trial_summary(const Trial& trial) {
  json phases = json::object();
  for (const auto& [name, ms] : trial.switch_phases.named()) phases[name] = ms;
  return {{"id", trial.id},
          {"hash", trial.plan.hash},
          {"plan", carried(trial.plan.json)},
          {"state", to_string(trial.state)},
          {"reason", trial.reason.text()},
          {"message", trial.message},
          {"predicted_ms", trial.predicted.mean_ms},
          {"predicted_interval_ms", {trial.predicted.low_ms, trial.predicted.high_ms}},
          {"measured_ms", trial.measured.mean_ms},
          {"stages", trial_stages(trial)},
          {"incumbent_ms", trial.incumbent.mean_ms},
          {"speedup", {{"ratio", trial.ratio.ratio}, {"low", trial.ratio.low}, {"high", trial.ratio.high}}},
          {"switch_ms", trial.switch_ms},
          {"switch_phases_ms", std::move(phases)},
          {"break_even_steps", trial.break_even_steps},
          {"steps", trial.steps}};
}

json earlier_trial_summary(const EarlierTrial& trial) {
  return {{"id", trial.id},
          {"hash", trial.plan_hash},
          {"plan", nullptr},
          {"state", trial.state},
          {"reason", trial.reason},
          {"predicted_ms", trial.predicted_ms},
          {"measured_ms", trial.measured_ms}};
}

json job_json(const JobRun& job) {
  const TuningState& state = job.state();
  json document = summary_json(job);
  document["fingerprint"] = state.fingerprint;
  document["launch"] = state.launch;
  document["evaluations"] = state.search.evaluations;
  document["incumbent"] = {{"hash", state.incumbent.hash},
                           {"plan", carried(state.incumbent.json)},
                           {"predicted_ms", state.incumbent_predicted.mean_ms},
                           {"measured_ms", state.incumbent_measured.mean_ms}};
  document["initial"] = {{"hash", state.initial.hash},
                         {"predicted_ms", state.initial_predicted.mean_ms},
                         {"measured_ms", state.initial_measured.mean_ms}};
  double best = state.incumbent_predicted.mean_ms;
  if (!state.trials.empty()) {
    const double tried = state.trials.back().predicted.mean_ms;
    best = best > 0 ? std::min(best, tried) : tried;
  }
  document["best_prediction_ms"] = best;
  document["recommendation"] = carried(state.recommendation_json);
  document["trial"] = state.has_trial() ? trial_summary(state.trials.back()) : json(nullptr);
  document["awaiting_approval"] =
      state.doing == Doing::kAwaitingApproval ? trial_summary(state.trials.back()) : json(nullptr);
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

std::string error_document(const std::string& message) {
  return text({{"error", message}});
}

std::string status_document(const Services& services, const JobTable& jobs, Nanoseconds up, const Caller& caller) {
  return text({{"release", TRIMTAB_RELEASE},
               {"protocol_version", kSpokenVersions.newest},
               {"uptime_s", std::chrono::duration<double>(up).count()},
               {"nodes", nodes_json(services, caller)},
               {"jobs", jobs_json(jobs, caller)}});
}

std::string nodes_document(const Services& services, const Caller& caller) {
  return text({{"nodes", nodes_json(services, caller)}});
}
std::string jobs_document(const JobTable& jobs, const Caller& caller) {
  return text({{"jobs", jobs_json(jobs, caller)}});
}

std::string job_document(const JobRun& job) {
  return text(job_json(job));
}

std::string submitted_document(const Submitted& submitted) {
  json document = job_json(*submitted.job);
  document["was_running"] = submitted.was_running;
  return text(document);
}

std::string trials_document(const TuningState& state, const std::vector<EarlierTrial>& earlier) {
  json trials = json::array();
  for (const EarlierTrial& trial : earlier) trials.push_back(earlier_trial_summary(trial));
  for (const Trial& trial : state.trials) trials.push_back(trial_summary(trial));
  return text({{"trials", trials}});
}

std::string events_document(const std::vector<StoredEvent>& events) {
  json list = json::array();
  for (const StoredEvent& event : events) {
    list.push_back({{"sequence", event.sequence},
                    {"at_ns", event.at_ns},
                    {"kind", event.note.kind},
                    {"text", event.note.text},
                    {"data", carried(event.note.data_json)}});
  }
  return text({{"events", list}});
}

std::string audit_document(const std::vector<StoredAudit>& entries) {
  json list = json::array();
  for (const StoredAudit& one : entries) {
    json entry = {{"entry", one.entry},     {"at_ns", one.at_ns},   {"who", one.audit.who},
                  {"what", one.audit.what}, {"job", one.audit.job}, {"why", one.audit.why}};
    if (one.audit.run > 0) entry["run"] = one.audit.run;
    list.push_back(std::move(entry));
  }
  return text({{"entries", list}});
}

std::string costs_document(const std::string& fingerprint, const std::vector<Cost>& costs) {
  json list = json::array();
  for (const Cost& cost : costs) {
    list.push_back({{"key", carried(to_json(cost.key))},
                    {"source", to_text(cost.source)},
                    {"unit", unit_of(cost.key.kind)},
                    {"count", cost.statistics.count()},
                    {"mean", cost.statistics.mean()},
                    {"standard_error", cost.statistics.standard_error()},
                    {"min", cost.statistics.min()},
                    {"max", cost.statistics.max()},
                    {"median", cost.statistics.median()}});
  }
  return text({{"fingerprint", fingerprint}, {"costs", list}});
}

std::string fingerprints_document(const std::vector<Fingerprint>& fingerprints) {
  json list = json::array();
  for (const Fingerprint& one : fingerprints) {
    list.push_back({{"hash", hash(one)}, {"fingerprint", carried(to_json(one))}});
  }
  return text({{"fingerprints", list}});
}

}  // namespace trimtab::coordinator
