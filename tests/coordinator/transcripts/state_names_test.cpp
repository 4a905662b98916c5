// The names in a job's persisted state: an older state must be readable by a newer coordinator.

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "golden_file.hpp"
#include "tuning/state.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using nlohmann::json;

namespace {

// The paths of all members, "trials[].plan.hash number"; what stands in lists is taken together.
void add_names(const json& value, const std::string& path, std::set<std::string>& names) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      add_names(member, path.empty() ? name : path + "." + name, names);
    }
  } else if (value.is_array()) {
    INFO(path << " is empty in the state that is meant to be full");
    CHECK_FALSE(value.empty());
    for (const json& one : value) add_names(one, path + "[]", names);
  } else {
    names.insert(path + " " + (value.is_number() ? "number" : value.type_name()));
  }
}

Trial full_trial() {
  Trial trial;
  trial.id = 1;
  trial.predicted_terms = trial.measured_terms = {{1, 2, 3, 4, 5}};
  return trial;
}

Job full_job() {
  Job job;
  job.name = "full";
  job.steps = 1;
  job.describe = job.benchmark = job.train = job.submit = {"word"};
  job.environment = job.software = {{"name", "value"}};
  job.working_directory = "/";
  job.initial_plan_json = job.model_json = "{}";
  job.checkpoint = "/checkpoints";
  job.delivery = Delivery::kRestart;
  return job;
}

// Every list and every map has something.
TuningState full_state() {
  TuningState state;
  const PlanText plan{"plan", "hash"};
  const std::vector<Probe> probes{{0, "n0", "", "", 1, "computation"}};
  state.job = full_job();
  state.nodes = {{"n0", 0, 1}};
  state.profiling.requests = {"{}"};
  state.profiling.request_sizes = {1};
  state.profiling.near.findings = {tuner::NearFinding()};
  state.replaced = {{plan, {}, {}}};
  state.epoch_hashes = {{1, "hash"}};
  state.outstanding = {{"launch/1/n0", "n0", CommandKind::kLaunch}};
  state.crashes = {{1, 1, 1, "hash", "why"}};
  state.trials = {full_trial()};
  state.forgotten.tried = {"hash"};
  state.passed_over = {{plan, 1, "why"}};
  state.observations = {{plan, 1, 1, {1}, {1}, 1, {{1, 2, 3, 4, 5}}}};
  state.failed_hashes = state.hung_hashes = {"hash"};
  state.hardware.drifts = {Drift()};
  state.hardware.drifts.back().gained_in = {1};
  state.hardware.drifts.back().doubts = true;
  state.hardware.drifts.back().again.costs = {MeasuredCost{{}, {"n0", "n1"}, -1, 1, 2, {3}, 4}};
  state.hardware.first_probes = state.hardware.last_probes = state.hardware.expected_there = probes;
  state.hardware.slow_devices = {{0, 0.5}};
  state.hardware.unprobed_nodes = {"n0"};
  state.elastic.resizes = {Resize()};
  state.elastic.before.nodes = {{"n0", 0, 1}};
  state.elastic.before.slow_devices = {{0, 0.5}};
  state.convergence = {Convergence()};
  state.losses = state.untuned_losses = {{1, 1, "samples"}};
  state.learning.before = state.learning.recent = {Learnt()};
  state.learning.outside = {{"loss", 1}};
  return state;
}

template <typename Enum>
std::string words(const std::string& name, int count) {
  std::string text = name + ":";
  for (int i = 0; i < count; ++i) text += " " + std::string(to_string(static_cast<Enum>(i)));
  return text + "\n";
}

// The same of enumerations whose words stand in the state alone.
std::string words_in(const std::string& name, int count, const std::function<json(int)>& written) {
  std::string text = name + ":";
  for (int i = 0; i < count; ++i) text += " " + written(i).get<std::string>();
  return text + "\n";
}

}  // namespace

TEST_CASE("the names and words of the persisted state are those of earlier releases", "[transcripts]") {
  const TuningState state = full_state();
  const json document = json::parse(to_json(state));
  std::set<std::string> names;
  add_names(document, "", names);
  add_names(json::parse(document["job"].get<std::string>()), "(job)", names);
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  text += words<Phase>("phases", 14) + words<Doing>("doings", 11) + words<TrialState>("trials", 8);
  text += words_in("commands", 4, [&](int i) {
    TuningState one;
    one.outstanding = {{"", "", static_cast<CommandKind>(i)}};
    return json::parse(to_json(one))["outstanding"][0]["kind"];
  });
  text += words_in("after_kill", 7, [&](int i) {
    TuningState one;
    one.after_kill = static_cast<AfterKill>(i);
    return json::parse(to_json(one))["after_kill"];
  });
  text += words<tuner::NearClass>("near.findings[].of", tuner::kNearClasses);
  text += words<tuner::NearVerdict>("near.findings[].verdict", tuner::kNearVerdicts);
  check_golden("state_names", text);
}

TEST_CASE("a full state reads back as it was written", "[transcripts]") {
  const std::string text = to_json(full_state());
  const auto read = parse_tuning_state(text);
  REQUIRE(read.ok());
  CHECK(to_json(*read) == text);
}
