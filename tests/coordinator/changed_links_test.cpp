// Costs over links that a drift has changed, measured anew before plans are tried.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "cost_needs.hpp"
#include "schema/model.hpp"
#include "tuner/needed_costs.hpp"
#include "tuning/tuning.hpp"

#include "agents_world.hpp"
#include "fake_world.hpp"
#include "simulated_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Cost cost_of(CostKind kind, std::int64_t ns, std::int64_t bytes = 1, const std::string& placement = "") {
  Cost one;
  one.key.kind = kind;
  one.key.subject = kind == CostKind::kCollective ? "all_reduce" : "";
  one.key.bytes = bytes;
  one.key.placement = placement;
  one.statistics.add(ns);
  return one;
}

// Two ranks, a drift of whose link is explained; the first search of the new plans is under way.
class Retuned {
 public:
  explicit Retuned(double overhead = 0.2, JobMode mode = JobMode::kAuto) : tuning_(state_of(overhead, mode)) {
    take(tuning_.resume(now()));
    for (const char* node : {"n0", "n1"}) feed(NodeBack{node, {{node[1] - '0', 1, 1}}});
    REQUIRE(state().doing == Doing::kSearching);
  }
  void feed(const Event& event) { take(tuning_.handle(event, now())); }
  void searched(std::int32_t stale) {
    SearchReply reply;
    reply.costs_known = 100;
    reply.costs_stale = stale;
    feed(SearchFinished{state().searches, reply});
  }
  void carry_out(Nanoseconds each = Nanoseconds(0)) {
    while (!state().outstanding.empty()) {
      clock_.advance(each);
      feed(CommandFinished{state().outstanding.front().tag, true, "", ""});
    }
  }
  void step() {
    ++step_;
    clock_.advance(std::chrono::milliseconds(100));
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      feed(FromRank{rank, state().launch, RankStep{step_, state().launch_epoch, 100, 1, "", 0}});
    }
  }
  void restart_coordinator() {
    tuning_ = Tuning(parse_tuning_state(to_json(tuning_.state())).value());
    take(tuning_.resume(now()));
    for (const char* node : {"n0", "n1"}) feed(NodeBack{node, {}});
  }
  template <typename One>
  std::vector<One> done() {
    std::vector<One> found;
    for (const Action& action : actions_) {
      if (const auto* one = std::get_if<One>(&action)) found.push_back(*one);
    }
    actions_.clear();
    return found;
  }
  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] Progress progress() const { return tuning_.progress(); }
  [[nodiscard]] long says(const std::string& words) const {
    return std::ranges::count_if(notes_, [&](const auto& one) { return one.find(words) != std::string::npos; });
  }

 private:
  static TuningState state_of(double overhead, JobMode mode) {
    TuningState state;
    state.job = fake_job(mode);
    state.job.steps = 10'000;
    state.job.trials.overhead = overhead;
    state.job.trials.stop_after = false;
    state.phase = Phase::kTrials;
    state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
    state.initial = state.incumbent = {"initial", "initial"};
    state.initial_measured = state.incumbent_measured = {100, 99, 101, 20};
    state.epoch_hashes = {{1, "initial"}};
    state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
    state.first_probes = {{-1, "n0", "n1", "inter_node", 10}};
    state.last_probes = {{-1, "n0", "n1", "inter_node", 20}};
    Drift drift;
    drift.before_ms = 50;
    drift.after_ms = 100;
    drift.handled = drift.links = true;
    drift.what = "the link of node n0 to n1 is at 50 % of its bandwidth";
    state.drifts = {drift};
    return state;
  }
  [[nodiscard]] Moment now() const { return {clock_.monotonic(), clock_.wall()}; }
  void take(const std::vector<Action>& actions) {
    actions_.insert(actions_.end(), actions.begin(), actions.end());
    for (const Note& one : tuning_.take_notes()) notes_.push_back(one.text);
    if (tuning_.take_transition()) REQUIRE(parse_tuning_state(to_json(tuning_.state())).ok());
  }

  ManualClock clock_;
  Tuning tuning_;
  std::int64_t step_ = 10;
  std::vector<Action> actions_;
  std::vector<std::string> notes_;
};

}  // namespace

TEST_CASE("what was measured over changed links stands in place of what was scaled, and nothing else", "[links]") {
  std::vector<Cost> costs{cost_of(CostKind::kCollective, 1000), cost_of(CostKind::kCollective, 2000, 1, "inter_node"),
                          cost_of(CostKind::kPointToPoint, 3000), cost_of(CostKind::kPointToPoint, 4000, 77)};
  std::vector<Cost> measured{cost_of(CostKind::kCollective, 9000),
                             cost_of(CostKind::kCollective, 9000, 1, "inter_node"),
                             cost_of(CostKind::kPointToPoint, 9000)};
  measured.back().key.placement = "intra_node";  // said or not
  CHECK(take_measured(measured, {{"intra_node", 0.5}}, costs) == 2);
  CHECK(costs[0].statistics.mean() == 9000);
  CHECK(costs[1].statistics.mean() == 2000);
  CHECK(costs[2].statistics.mean() == 9000);
  CHECK(costs[3].statistics.mean() == 4000);
}

TEST_CASE("of costs over changed links those are asked for that plans need and were known, once", "[links]") {
  const SimulationInput input = small_input(1);
  std::vector<Cost> known;
  for (const CostKey& key : tuner::needed_costs(parse_model(input.model_json, "").value(),
                                                parse_cluster(input.cluster_json, "").value(), input.job.knobs, {})) {
    known.push_back({key, {}});
  }
  const auto count = [&](const std::set<std::string>& levels, const std::vector<Cost>& measured) {
    return count_link_costs(input.model_json, input.cluster_json, input.job.knobs, known, levels, measured);
  };
  const CostsCounted all = count({"intra_node"}, {});
  CHECK(all.error.empty());
  CHECK(all.missing > 0);
  CHECK(all.known == 0);
  REQUIRE_FALSE(all.requests.empty());
  CHECK(all.requests[0].find("operator\"") == std::string::npos);
  CHECK(count({"inter_node"}, {}).missing == 0);
  CHECK(count({"intra_node"}, known).missing == 0);
  CHECK(count({"intra_node"}, known).known == all.missing);
  CHECK_FALSE(count_link_costs("{", "{", {}, {}, {}, {}).error.empty());
}

TEST_CASE("stale costs are measured by benchmarks alone on the devices, then plans are searched again", "[links]") {
  Retuned job;
  job.searched(10);
  CHECK(job.says("costs over the links that have changed are measured anew") == 1);
  CHECK(job.state().doing == Doing::kKilling);
  job.carry_out();
  REQUIRE(job.state().phase == Phase::kProfiling);
  CHECK(job.state().changed_links.measuring);
  CHECK(job.state().changed_links.levels == std::set<std::string>{"inter_node"});
  CHECK_FALSE(job.state().changed_links.mark.empty());
  const bool restarted = GENERATE(false, true);
  if (restarted) job.restart_coordinator();
  job.feed(CostsCounted{0, 3, {"{}"}, {3}, "a, b", ""});
  CHECK(job.done<BenchmarkOn>().size() == 2);
  CHECK(job.progress().total == 3);
  const std::int64_t profiling_ns = job.state().profiling_ns;
  job.carry_out(std::chrono::seconds(5));
  job.feed(CostsCounted{3, 0, {}, {}, "", ""});
  CHECK(job.state().phase == Phase::kTrials);
  CHECK_FALSE(job.state().changed_links.measuring);
  // The job's own profiling is what it was: what a cost takes to measure is known by it.
  CHECK(job.state().profiling_ns == profiling_ns);
  CHECK(job.state().costs_wanted == 0);
  CHECK(job.done<LaunchOn>().size() == 2);
  job.carry_out();
  job.step();
  REQUIRE(job.state().doing == Doing::kSearching);
  // What it cost is trials' to pay; a coordinator that dies forgets since when.
  CHECK(job.state().remeasuring_ms >= (restarted ? 0 : 10'000));
  CHECK(job.state().overhead_ms() == Approx(job.state().remeasuring_ms));
  job.searched(4);  // what no benchmark could measure stays scaled, and is not asked for twice
  CHECK(job.says("costs over the links that have changed are measured anew") == 1);
  CHECK(job.state().phase != Phase::kProfiling);
}

TEST_CASE("stale costs are not measured where that costs more than trials may, nor without the right", "[links]") {
  SECTION("the budget") {
    Retuned job(0.01);  // 10 s of 1000
    job.searched(10);
    CHECK(job.says("they are not measured anew: that takes about 40.0 s") == 1);
    CHECK(job.state().changed_links.mark.empty());
    CHECK(job.done<KillOn>().empty());
  }
  SECTION("the mode") {
    Retuned job(0.2, JobMode::kApprove);
    job.searched(10);
    CHECK(job.done<KillOn>().empty());
  }
  SECTION("nothing is stale") {
    Retuned job;
    job.searched(0);
    CHECK(job.done<KillOn>().empty());
  }
}

TEST_CASE("a node that goes away while stale costs are measured leaves them as they were probed", "[links]") {
  Retuned job;
  job.searched(10);
  job.carry_out();
  job.feed(CostsCounted{0, 3, {"{}"}, {3}, "a, b", ""});
  job.feed(NodeLost{"n1"});
  for (int i = 0; i < 60; ++i) job.step();  // time passes; no rank is there to be heard
  job.feed(Tick{});
  CHECK(job.says("costs are not measured anew: a node is away") == 1);
  CHECK(job.state().phase == Phase::kTrials);
  CHECK(job.state().doing == Doing::kKilling);
}

TEST_CASE("costs over changed links are measured under a mark, kept apart from those of before, and searched with",
          "[links]") {
  World world;
  world.hello("n0", 1);
  world.hello("n1", 2);
  const SimulationInput input = small_input(1);
  const Fingerprint former = parse_fingerprint(fingerprint_json(), "test").value();
  std::vector<Cost> known;
  for (const CostKey& key : tuner::needed_costs(parse_model(input.model_json, "").value(),
                                                parse_cluster(input.cluster_json, "").value(), {}, {})) {
    known.push_back({key, {}});
    known.back().statistics.add(1000);
  }
  REQUIRE(world.costs.add_batch({"somebody", 1}, former, "active", known).ok());
  JobRun& submitted = world.submit("gpt");
  TuningState state = submitted.state();
  state.phase = Phase::kProfiling;
  state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
  state.model_json = input.model_json;
  state.cluster_json = input.cluster_json;
  state.fingerprint = hash(former);
  state.incumbent = {"best", "best"};
  state.launch = 3;
  state.changed_links = {{"intra_node"}, "changed-7", false, true, ""};
  JobRun run(submitted.run(), state, "", world.services);
  world.told.clear();
  run.resume();
  REQUIRE(world.told[2].size() == 1);
  const wire::Benchmark& asked = world.told[2].front().command().benchmark();
  CHECK(nlohmann::json::parse(asked.job_json())["environment"]["NCCL_TRIMTAB_LINKS"] == "changed-7");
  CHECK(asked.requests_json().find("collective") != std::string::npos);
  CHECK(asked.requests_json().find("\"operator\"") == std::string::npos);

  Fingerprint marked = former;
  marked.environment["NCCL_TRIMTAB_LINKS"] = "changed-7";
  for (Cost& one : known) {
    one.statistics = {};
    one.statistics.add(9000);
  }
  REQUIRE(world.costs.add_batch({"somebody", 2}, marked, "active", known).ok());
  run.costs_stored(hash(marked), true);
  CHECK(run.state().fingerprint == hash(former));
  CHECK(run.state().changed_links.fingerprint == hash(marked));
  while (run.state().phase == Phase::kProfiling && !run.state().outstanding.empty()) {
    run.feed(CommandFinished{run.state().outstanding.front().tag, true, "", ""});
  }
  CHECK(run.state().phase == Phase::kTrials);
  REQUIRE_FALSE(run.link_costs().empty());
  for (const Cost& one : run.link_costs()) CHECK(one.statistics.mean() == 9000);
  for (const Cost& one : run.known_costs()) CHECK(one.statistics.mean() == 1000);
}

// The truth: messages take much longer, the bandwidth is little less. What was probed scales all costs alike and says
// little of short messages, so plans that send many are tried in vain.
TEST_CASE("where a link's latency changes more than its bandwidth, costs measured anew try no plan in vain",
          "[links][simulation]") {
  const auto tried_in_vain = [](const Simulated& done) {
    const std::string before = done.transcript.substr(0, done.transcript.find("drift: what has changed"));
    REQUIRE(before.size() < done.transcript.size());
    const auto is_later = [&](const nlohmann::json& trial) {
      const std::string words = "trial: trial " + std::to_string(trial["id"].get<int>()) + ": predicted";
      return before.find(words) == std::string::npos;
    };
    return std::ranges::count_if(done.verdict["trials"], [&](const nlohmann::json& trial) {
      return is_later(trial) && trial["predicted_ms"].get<double>() < 0.9 * trial["true_ms"].get<double>();
    });
  };
  long by_probe = 0;
  long by_benchmark = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SimulationInput input = small_input(seed);
    input.job.trials.overhead = 0.5;
    input.scenario.truth.error = input.scenario.truth.spread = 0;
    input.scenario.drift.push_back({3000, "link", "intra_node", "", 0, 0.7, 0, "", 20'000});
    const Simulated probed = run(input);
    input.job.benchmark = {"benchmark"};
    const Simulated measured = run(input);
    INFO("seed " << seed << "\nprobed\n" << probed.transcript << "\nmeasured\n" << measured.transcript);
    CHECK(measured.says("costs over the links that have changed are measured anew"));
    CHECK(measured.says("launch 3 runs"));
    by_probe += tried_in_vain(probed);
    by_benchmark += tried_in_vain(measured);
    CHECK(measured.verdict["regret"].get<double>() <= probed.verdict["regret"].get<double>() + 0.02);
  }
  INFO(by_probe << " plans tried in vain by probes, " << by_benchmark << " with costs measured anew");
  CHECK(by_probe >= 8);
  CHECK(by_benchmark == 0);
}
