#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "schema/prediction.hpp"
#include "tuning/state.hpp"

// The JSON form of the persisted state: private to the coordinator's database, so field names follow the struct.
namespace trimtab {

static void to_json(nlohmann::json& to, const StepTerms& terms) {
  to = {{"computation_ms", terms.computation_ms},
        {"collectives_ms", terms.collectives_ms},
        {"gradients_ms", terms.gradients_ms},
        {"transfers_ms", terms.transfers_ms},
        {"idle_ms", terms.idle_ms}};
  if (terms.launching_ms > 0) to["launching_ms"] = terms.launching_ms;
}

static void from_json(const nlohmann::json& from, StepTerms& terms) {
  from.at("computation_ms").get_to(terms.computation_ms);
  from.at("collectives_ms").get_to(terms.collectives_ms);
  from.at("gradients_ms").get_to(terms.gradients_ms);
  from.at("transfers_ms").get_to(terms.transfers_ms);
  from.at("idle_ms").get_to(terms.idle_ms);
  terms.launching_ms = from.value("launching_ms", 0.0);
}

namespace tuner {

template <typename Enum>
static Enum near_name(const nlohmann::json& from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (to_string(static_cast<Enum>(i)) == from.get<std::string>()) return static_cast<Enum>(i);
  }
  throw std::runtime_error("unknown name " + from.dump());
}

static void to_json(nlohmann::json& to, const NearFinding& finding) {
  to = {{"of", to_string(finding.of)},
        {"verdict", to_string(finding.verdict)},
        {"factor", finding.factor},
        {"doubt", finding.doubt},
        {"probes", finding.probes}};
}

static void from_json(const nlohmann::json& from, NearFinding& finding) {
  finding.of = near_name<NearClass>(from.at("of"), kNearClasses);
  finding.verdict = near_name<NearVerdict>(from.at("verdict"), kNearVerdicts);
  from.at("factor").get_to(finding.factor);
  from.at("doubt").get_to(finding.doubt);
  from.at("probes").get_to(finding.probes);
}

}  // namespace tuner

}  // namespace trimtab

namespace trimtab::coordinator {

using nlohmann::json;

// Texts are read here, once.
static void to_json(json& to, const PlanText& plan) {
  to = {{"json", plan.json}, {"hash", plan.hash}};
}

static void from_json(const json& from, PlanText& plan) {
  plan = PlanText(from.at("json").get<std::string>(), from.at("hash").get<std::string>());
}

static void to_json(json& to, const ClusterText& cluster) {
  to = cluster.json;
}

static void from_json(const json& from, ClusterText& cluster) {
  cluster = ClusterText(from.get<std::string>());
}

static void to_json(json& to, const TermParts& parts) {
  to = json::object();
  TermParts::each([&](const char* name, auto part) {
    if (parts.*part) to[name] = *(parts.*part);
  });
}
static void from_json(const json& from, TermParts& parts) {
  TermParts::each([&](const char* name, auto part) {
    if (from.contains(name)) parts.*part = from.at(name).get<double>();
  });
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NearFound, fingerprint, differences, doubt)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NearState, decided, counted, hardware, found, probes, requests_done,
                                                taken_over, findings)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeShare, node, first_rank, ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Predicted, raw_ms, mean_ms, low_ms, high_ms, feasible)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measured, mean_ms, low_ms, high_ms, steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ratio, ratio, low, high)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LossAt, step, loss, samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ChangePhases, save_ms, move_ms, groups_ms, build_ms, stop_ms, copy_ms,
                                                queue_ms, start_ms, first_step_ms, warm_up_ms, wait_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Learnt, loss, gradient_norm, not_finite)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LearningWatch, plan, plan_before, since_step, left, sound, before, recent, outside)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairNoise, squares, degrees)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Replaced, plan, predicted, measured)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PassedOver, plan, predicted_ms, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MeasuredPlan, plan, measured_ms, sigma_ms, peak_bytes, pass_ms,
                                                pass_steps, terms)
static void to_json(json& to, const MeasuredCost& one) {
  to = {{"key", trimtab::to_json(one.key)},
        {"pair", one.pair},
        {"device", one.device},
        {"before_ns", one.before_ns},
        {"expected_ns", one.expected_ns},
        {"values", one.values},
        {"others_ns", one.others_ns}};
}

static void from_json(const json& from, MeasuredCost& one) {
  auto key = parse_cost_key(from.at("key").get<std::string>());
  if (!key.ok()) throw std::runtime_error(key.error().message);
  one.key = std::move(key).value();
  from.at("pair").get_to(one.pair);
  from.at("device").get_to(one.device);
  from.at("before_ns").get_to(one.before_ns);
  from.at("expected_ns").get_to(one.expected_ns);
  from.at("values").get_to(one.values);
  from.at("others_ns").get_to(one.others_ns);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Remeasured, doubtful, step, took_ms, costs, left)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Drift, plan_hash, since_step, noticed_step, before_ms, after_ms,
                                                by_look, during, handled, links, devices, what, stale, trials_before,
                                                kept, gained_before, gained_in, confidence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Probe, device, node, peer, level, ms, work, spread, remark, shared_ms,
                                                shared_spread, used, round_trip_ms, shortest, longest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LinkFault, node, link, reading, what, confidence, device, within,
                                                across, step, doubts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Resize, step, lost, devices, plan_hash, joined, outcome, trials_before)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ForgottenTrials, adopted, rejected, failed, overhead_ms, tried)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Crash, wall_ns, step, launch, plan_hash, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Convergence, seconds, evaluations, trial, best_measured_ms, best_predicted_ms)

NLOHMANN_JSON_SERIALIZE_ENUM(CommandKind, {{CommandKind::kDescribe, "describe"},
                                           {CommandKind::kBenchmark, "benchmark"},
                                           {CommandKind::kLaunch, "launch"},
                                           {CommandKind::kKill, "kill"}})
NLOHMANN_JSON_SERIALIZE_ENUM(AfterKill, {{AfterKill::kRelaunch, "relaunch"},
                                         {AfterKill::kUntuned, "untuned"},
                                         {AfterKill::kFinish, "finish"},
                                         {AfterKill::kFail, "fail"},
                                         {AfterKill::kStop, "stop"},
                                         {AfterKill::kRestart, "restart"},
                                         {AfterKill::kHalt, "halt"}})

namespace {

// An unknown name says that a newer release wrote the state.
template <typename Enum>
Enum named(std::optional<Enum> found, const json& from) {
  if (!found) throw std::runtime_error("unknown name " + from.dump());
  return *found;
}

}  // namespace

static void to_json(json& to, const Spare& spare) {
  to = {{"plan", spare.plan}, {"predicted", spare.predicted}, {"cluster_json", spare.cluster}};
}

static void from_json(const json& from, Spare& spare) {
  from.at("plan").get_to(spare.plan);
  from.at("predicted").get_to(spare.predicted);
  from.at("cluster_json").get_to(spare.cluster);
}

static void to_json(json& to, const Before& before) {
  to = {{"nodes", before.nodes},
        {"cluster_json", before.cluster},
        {"ranks", before.ranks},
        {"plan", before.plan},
        {"predicted", before.predicted},
        {"measured", before.measured},
        {"slow_devices", before.slow_devices}};
}

static void from_json(const json& from, Before& before) {
  from.at("nodes").get_to(before.nodes);
  from.at("cluster_json").get_to(before.cluster);
  from.at("ranks").get_to(before.ranks);
  from.at("plan").get_to(before.plan);
  from.at("predicted").get_to(before.predicted);
  from.at("measured").get_to(before.measured);
  from.at("slow_devices").get_to(before.slow_devices);
}

static void to_json(json& to, const OutstandingCommand& command) {
  to = {{"tag", command.tag.text}, {"node", command.node}, {"kind", command.kind}};
}

static void from_json(const json& from, OutstandingCommand& command) {
  command = {from.at("tag").get<std::string>(), from.at("node").get<std::string>(), from.at("kind").get<CommandKind>()};
}

template <typename Of, typename Visit>
static void each_field_of(Of& trial, const Visit& visit) {
  visit("id", trial.id);
  visit("plan", trial.plan);
  visit("message", trial.message);
  visit("predicted", trial.predicted);
  visit("incumbent", trial.incumbent);
  visit("measured", trial.measured);
  visit("ratio", trial.ratio);
  visit("switch_ms", trial.switch_ms);
  visit("steps", trial.steps);
}

// What states of earlier releases lack.
template <typename Of, typename Visit>
static void each_later_field_of(Of& trial, const Visit& visit) {
  visit("predicted_terms", trial.predicted_terms);
  visit("measured_terms", trial.measured_terms);
  visit("switch_phases", trial.change_phases);
  visit("begun_step", trial.begun_step);
  visit("peak_bytes", trial.peak_bytes);
  visit("changes_ms", trial.changes_ms);
  visit("excess_ms", trial.excess_ms);
  visit("break_even_steps", trial.break_even_steps);
}

static void to_json(json& to, const Trial& trial) {
  to = {{"state", to_string(trial.state)}, {"reason", trial.reason.text()}};
  const auto write = [&to](const char* name, const auto& field) { to[name] = field; };
  each_field_of(trial, write);
  each_later_field_of(trial, write);
  if (!trial.measured_parts.empty()) write("measured_parts", trial.measured_parts);
}

static void from_json(const json& from, Trial& trial) {
  trial.state = named(trial_state_named(from.at("state").get<std::string>()), from.at("state"));
  trial.reason = Reason::parsed(from.at("reason").get<std::string>());
  each_field_of(trial, [&from](const char* name, auto& field) { from.at(name).get_to(field); });
  const auto read = [&from](const char* name, auto& field) {
    if (from.contains(name)) from.at(name).get_to(field);
  };
  each_later_field_of(trial, read);
  read("measured_parts", trial.measured_parts);
}

namespace {

// One list of the plain fields serves both directions.
template <typename State, typename Visit>
void each_field(State& s, const Visit& visit) {
  visit("tune", s.tune);
  visit("frozen", s.frozen);
  visit("stop_asked", s.stop_asked);
  visit("failure", s.failure);
  visit("conclusion", s.conclusion);
  visit("recommendation_json", s.recommendation_json);
  visit("begun_wall_ns", s.begun_wall_ns);
  visit("phase_wall_ns", s.phase_wall_ns);
  visit("tuned_wall_ns", s.tuned_wall_ns);
  visit("finished_wall_ns", s.finished_wall_ns);
  visit("nodes", s.nodes);
  visit("cluster_json", s.cluster);
  visit("fingerprint", s.fingerprint);
  visit("requests", s.profiling.requests);
  visit("request_sizes", s.profiling.request_sizes);
  visit("request_next", s.profiling.request_next);
  visit("costs_reused", s.profiling.costs_reused);
  visit("costs_wanted", s.profiling.costs_wanted);
  visit("costs_missing", s.profiling.costs_missing);
  visit("profiling_ns", s.profiling.profiling_ns);
  visit("initial", s.initial);
  visit("incumbent", s.incumbent);
  visit("initial_predicted", s.initial_predicted);
  visit("incumbent_predicted", s.incumbent_predicted);
  visit("initial_measured", s.initial_measured);
  visit("incumbent_measured", s.incumbent_measured);
  visit("epoch_hashes", s.epoch_hashes);
  visit("last_epoch", s.last_epoch);
  visit("committed_epoch", s.committed_epoch);
  visit("launch", s.launch);
  visit("launch_epoch", s.launch_epoch);
  visit("launch_plan", s.launch_plan);
  visit("launch_variant", s.launch_variant);
  visit("launch_fresh", s.launch_fresh);
  visit("launch_steps", s.launch_steps);
  visit("outstanding", s.outstanding);
  visit("after_kill", s.after_kill);
  visit("relaunches", s.relaunches);
  visit("interrupted_step", s.interrupted_step);
  visit("trials", s.trials);
}

template <typename State, typename Visit>
void each_result(State& s, const Visit& visit) {
  visit("passed_over", s.passed_over);
  visit("observations", s.observations);
  visit("failed_hashes", s.failed_hashes);
  visit("calibration_json", s.calibration_json);
  visit("searches", s.search.searches);
  visit("evaluations", s.search.evaluations);
  visit("search_seconds", s.search.seconds);
  visit("explanation", s.explanation);
  visit("convergence", s.convergence);
  visit("comparisons_begun", s.comparisons_begun);
  visit("final_initial", s.final_initial);
  visit("final_adopted", s.final_adopted);
  visit("final_ratio", s.final_ratio);
  visit("compared", s.compared);
  visit("step", s.step);
  visit("loss", s.loss);
  visit("step_ms", s.step_ms);
  visit("losses", s.losses);
  visit("untuned_losses", s.untuned_losses);
  visit("loss_note", s.loss_note);
}

// What states of earlier releases lack.
template <typename State, typename Visit>
void each_later_field(State& s, const Visit& visit) {
  visit("tenant", s.tenant);
  visit("noise", s.noise);
  visit("replaced", s.replaced);
  visit("retuned_from", s.retuned_from);
  visit("trials_before_tuning", s.trials_before_tuning);
  visit("retuned_ratio", s.retuned_ratio);
  visit("retuned_compared", s.retuned_compared);
  visit("earlier_calibration_json", s.earlier_calibration_json);
  visit("drifts", s.hardware.drifts);
  visit("retuned_step", s.hardware.retuned_step);
  visit("retune_wait", s.hardware.retune_wait);
  visit("trials_before_drift", s.trials_before_drift);
  visit("measured_step", s.measured_step);
  visit("first_probes", s.hardware.first_probes);
  visit("first_probed_step", s.hardware.first_probed_step);
  visit("last_probes", s.hardware.last_probes);
  visit("probed_plan_hash", s.hardware.probed_plan_hash);
  visit("slow_devices", s.hardware.slow_devices);
  visit("costs_hardware", s.hardware.costs_hardware);
  visit("unprobed_nodes", s.hardware.unprobed_nodes);
  visit("expected_there", s.hardware.expected_there);
  visit("spare", s.elastic.spare);
  visit("resizes", s.elastic.resizes);
  visit("before", s.elastic.before);
  visit("launch_ms", s.launch_ms);
  visit("ranks", s.ranks);
  visit("trials_before_resize", s.trials_before_resize);
  visit("crashes", s.crashes);
  visit("forgotten", s.forgotten);
  visit("comparison_changes_ms", s.spent.comparison_changes_ms);
  visit("comparison_excess_ms", s.spent.comparison_excess_ms);
  visit("growth_ms", s.spent.growth_ms);
  visit("looks_ms", s.hardware.looks_ms);
  visit("dearest_look_ms", s.hardware.dearest_look_ms);
  visit("dearest_change_ms", s.spent.dearest_change_ms);
  visit("trained_ms", s.spent.trained_ms);
  visit("other_hardware", s.hardware.other_hardware);
  visit("unprofiled", s.hardware.unprofiled);
  visit("hung_hashes", s.hung_hashes);
  visit("learning", s.learning);
  visit("spoilt_step", s.spoilt_step);
  visit("saves_at_stop", s.stops.saves_at_stop);
  visit("stops", s.stops.stops);
  visit("stopped_step", s.stops.stopped_step);
  visit("saved_step", s.stops.saved_step);
  visit("stops_refused", s.stops.refused);
}

// Few jobs meet changes of the hardware. By the places of the drifts.
void write_measured_again(const HardwareState& hardware, json& document) {
  json of_drifts = json::array();
  for (std::size_t i = 0; i < hardware.drifts.size(); ++i) {
    if (hardware.drifts[i].doubts) of_drifts.push_back({{"drift", i}, {"again", hardware.drifts[i].again}});
  }
  if (of_drifts.empty() && !hardware.measures_first && hardware.measurings == 0) return;
  document["measured_again"] = {{"first", hardware.measures_first},
                                {"times", hardware.measurings},
                                {"ms", hardware.measurings_ms},
                                {"drifts", of_drifts}};
}

void read_measured_again(const json& document, HardwareState& hardware) {
  if (!document.contains("measured_again")) return;
  const json& told = document.at("measured_again");
  told.at("first").get_to(hardware.measures_first);
  told.at("times").get_to(hardware.measurings);
  told.at("ms").get_to(hardware.measurings_ms);
  for (const json& one : told.at("drifts")) {
    Drift& drift = hardware.drifts.at(one.at("drift").get<std::size_t>());
    drift.doubts = true;
    one.at("again").get_to(drift.again);
  }
}

// Of jobs that are restarted alone.
template <typename Stops, typename Visit>
void each_copy_field(Stops& stops, const Visit& visit) {
  visit("checkpoint_copy_ms", stops.copy_ms);
  visit("checkpoint_copy_words", stops.copy_words);
  visit("checkpoint_copy_refused", stops.copy_refused);
}

// Few jobs meet near hardware.
bool is_told(const NearState& near) {
  return !near.found.fingerprint.empty() || !near.findings.empty() || near.requests_done > 0;
}

}  // namespace

std::string to_json(const std::vector<Probe>& probes) {
  return json(probes).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<Probe>> parse_probes(std::string_view text) {
  try {
    return json::parse(text).get<std::vector<Probe>>();
  } catch (const std::exception& cause) {
    return bad_input(std::string("stored probes cannot be read: ") + cause.what());
  }
}

namespace {

json changing(const TuningState& state) {
  json document = {{"version", 1}, {"phase", to_string(state.phase)}, {"doing", to_string(state.doing)}};
  const auto write = [&document](const char* name, const auto& field) { document[name] = field; };
  each_field(state, write);
  each_result(state, write);
  each_later_field(state, write);
  if (!state.stops.copy_words.empty()) each_copy_field(state.stops, write);
  if (state.watched) document["watched"] = true;
  if (is_told(state.profiling.near)) document["near"] = state.profiling.near;
  write_measured_again(state.hardware, document);
  if (!state.hardware.link_faults.empty()) document["link_faults"] = state.hardware.link_faults;  // few links ever fail
  return document;
}

json lasting(const TuningState& state) {
  return {{"job", trimtab::to_json(state.job)}, {"model_json", state.model_json}};
}

// A person's text or a rank's last output need not be UTF-8.
std::string text_of(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const TuningState& state) {
  json document = changing(state);
  document.update(lasting(state));
  return text_of(document);
}

std::string changing_json(const TuningState& state) {
  json document = changing(state);
  document["name"] = state.job.name;
  return text_of(document);
}

std::string lasting_json(const TuningState& state) {
  return text_of(lasting(state));
}

Result<TuningState> parse_tuning_state(std::string_view text, std::string_view lasting_text) {
  try {
    json document = json::parse(text);
    if (!document.contains("job")) {
      if (lasting_text.empty()) return no("of a job's stored state what it was handed in with is missing");
      document.update(json::parse(lasting_text));
    }
    TuningState state;
    TRIMTAB_TRY(state.job, parse_job(document.at("job").get<std::string>(), "state"));
    state.phase = named(phase_named(document.at("phase").get<std::string>()), document.at("phase"));
    state.doing = named(doing_named(document.at("doing").get<std::string>()), document.at("doing"));
    const auto read = [&document](const char* name, auto& field) { document.at(name).get_to(field); };
    read("model_json", state.model_json);
    each_field(state, read);
    each_result(state, read);
    const auto read_later = [&document](const char* name, auto& field) {
      if (document.contains(name)) document.at(name).get_to(field);
    };
    each_later_field(state, read_later);
    each_copy_field(state.stops, read_later);
    state.watched = document.value("watched", false);
    if (document.contains("near")) document.at("near").get_to(state.profiling.near);
    read_measured_again(document, state.hardware);
    read_later("link_faults", state.hardware.link_faults);
    if (!document.contains("trained_ms")) {
      state.spent.trained_ms = static_cast<double>(state.step) * state.incumbent_measured.mean_ms;
    }
    return state;
  } catch (const std::exception& cause) {
    return bad_input(std::string("the stored state of a job cannot be read: ") + cause.what());
  }
}

}  // namespace trimtab::coordinator
