// Long jobs: costs that change again and again, nodes that stay away. What is stored stays bounded.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../fake_world.hpp"
#include "../recorded_steps.hpp"
#include "../simulation/simulated_job.hpp"
#include "report.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

FakeWorld training_world(std::int64_t steps) {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.steps = steps;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}}, 5, 0.01);
  one.faults.probes = {{-1, "n0", "n1", "inter_node", 10}};
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  REQUIRE(one.running_plan() == "best");
  // What a step takes, before anything changes.
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  return one;
}

bool asks_for_spare(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, [](const Action& one) {
    const auto* search = std::get_if<SearchPlans>(&one);
    return search != nullptr && search->purpose == SearchFor::kSpare;
  });
}

}  // namespace

TEST_CASE("a job whose steps change for ever is tuned again ever less often, and its state stays small") {
  FakeWorld one = training_world(20'000);
  std::set<std::int64_t> retuned;
  std::size_t most_epochs = 0;
  std::size_t noticed = 0;
  std::int64_t last = 0;
  one.after_event = [&] {
    const TuningState& state = one.state();
    if (!state.hardware.drifts.empty() && state.hardware.drifts.back().noticed_step != last) {
      last = state.hardware.drifts.back().noticed_step;
      ++noticed;
    }
    one.faults.slowdown = state.step / 150 % 2 == 0 ? 1.5 : 1;
    one.faults.probes.back().ms = 10 * one.faults.slowdown;
    retuned.insert(state.hardware.retuned_step);
    most_epochs = std::max(most_epochs, state.epoch_hashes.size());
  };
  const bool ended = one.run([] { return false; }, 400'000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(noticed > 32);
  CHECK(one.state().hardware.drifts.size() == 32);
  // Not before it began, after 500, 1000 and 2000 steps, and then after a tenth of the job each time.
  CHECK(retuned.size() >= 6);
  CHECK(retuned.size() <= 14);
  for (auto at = std::next(retuned.begin(), 2); at != retuned.end(); ++at) CHECK(*at - *std::prev(at) >= 500);
  CHECK(one.history().find("the job is not tuned again for it before step") != std::string::npos);
  CHECK(most_epochs <= 66);
}

TEST_CASE("a machine that wanders between levels that tuning has seen is not tuned again, and is beyond them") {
  FakeWorld one = training_world(20'000);
  std::set<std::int64_t> retuned;
  double most = 1.5;
  one.after_event = [&] {
    one.faults.slowdown = one.state().step / 700 % 2 == 0 ? most : 1;
    retuned.insert(one.state().hardware.retuned_step);
  };
  REQUIRE(one.run([&] { return one.state().step >= 12'000; }, 400'000));
  INFO(one.history());
  CHECK(retuned.size() == 2);  // none, and the first time
  CHECK(one.state().hardware.drifts.size() >= 8);
  CHECK(one.state().hardware.drifts.front().gained_before.ratio == Approx(110.0 / 80).epsilon(0.05));
  CHECK(one.history().find("Steps took as long when the job was tuned again before") != std::string::npos);
  most = 2.5;
  REQUIRE(one.run([&] { return one.state().step >= 15'000; }, 400'000));
  CHECK(retuned.size() == 3);
}

TEST_CASE("what may have changed beside the steps is tuned for at any level") {
  const std::string what = GENERATE("nothing", "probes fail", "a link got faster");
  FakeWorld one = training_world(20'000);
  std::set<std::int64_t> retuned;
  one.after_event = [&] {
    one.faults.slowdown = one.state().step / 700 % 2 == 0 ? 1.5 : 1;
    retuned.insert(one.state().hardware.retuned_step);
    if (retuned.size() < 2) return;
    if (what == "probes fail") one.faults.probes.clear();
    // While the steps are short and known to be: the next ones are longer.
    const bool calm = one.state().hardware.drifts.size() >= 2 && one.state().hardware.drifts.back().handled;
    if (what == "a link got faster" && calm && one.faults.slowdown == 1) one.faults.probes.back().ms = 5;
  };
  REQUIRE(one.run([&] { return one.state().step >= 8000; }, 400'000));
  INFO(what << one.history());
  CHECK((retuned.size() == 2) == (what == "nothing"));
}

TEST_CASE("on a machine that wanders as one did in a recorded job, a job is seldom tuned again for it") {
  const std::vector<double> shares = recorded("gpt-cpu-long");
  REQUIRE(shares.size() == 5892);
  FakeWorld one = training_world(8000);
  std::set<std::int64_t> retuned;
  std::set<std::int64_t> noticed;
  const std::int64_t begin = one.state().step;
  one.after_event = [&] {
    const auto at = static_cast<std::size_t>(one.state().step - begin) % shares.size();
    one.faults.slowdown = shares[at];
    retuned.insert(one.state().hardware.retuned_step);
    for (const Drift& drift : one.state().hardware.drifts) noticed.insert(drift.noticed_step);
  };
  REQUIRE(one.run([&] { return one.state().step - begin >= 5800; }, 400'000));
  INFO(one.history());
  INFO(noticed.size() << " changes noticed, tuned again " << retuned.size() - 1 << " times");
  CHECK(noticed.size() >= 8);
  CHECK(retuned.size() - 1 >= 1);
  CHECK(retuned.size() - 1 <= 4);
}

TEST_CASE("a drift that was noticed under a plan that has failed since does not tell what another plan takes") {
  FakeWorld one = training_world(4000);
  one.faults.slowdown = 1.5;
  REQUIRE(one.run([&] { return one.state().doing == Doing::kProbing; }));
  one.feed(FromRank{0, one.state().launch, RankFailed{one.state().committed_epoch, "loss", "it rose"}});
  REQUIRE(one.state().incumbent.hash == "initial");
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0; }));
  INFO(one.history());
  CHECK(one.state().hardware.drifts.back().plan_hash == "best");
  CHECK(one.state().hardware.drifts.back().after_ms == Approx(105).epsilon(0.05));
  CHECK(one.state().incumbent_measured.mean_ms == Approx(150).epsilon(0.08));
  CHECK(one.state().observations.empty());
}

namespace {

// Six candidates, so that tuning takes a while; "best" is among the first.
FakeWorld tuning_world() {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.trials.max_trials = 12;
  job.steps = 8000;
  FakeWorld one(job,
                {{"initial", 100, 110},
                 {"best", 80, 70},
                 {"a", 95, 71},
                 {"b", 94, 72},
                 {"c", 96, 73},
                 {"d", 97, 74},
                 {"e", 93, 75}},
                5, 0.01);
  one.faults.probes = {
      {0, "n0", "", "", 10, "computation"}, {1, "n1", "", "", 10, "computation"}, {-1, "n0", "n1", "inter_node", 10}};
  one.begin();
  return one;
}

}  // namespace

TEST_CASE("a machine that changes in the middle of tuning is noticed, named, and tuning goes on from it") {
  FakeWorld one = tuning_world();
  REQUIRE(one.run([&] { return one.state().trials.size() == 2; }));
  REQUIRE(one.state().hardware.drifts.empty());
  const std::int64_t changed = one.state().step;
  one.faults.slowdown = 1.5;
  one.faults.probes.back().ms *= 2;
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  INFO(one.history());
  REQUIRE(one.state().hardware.drifts.size() == 1);
  const Drift& drift = one.state().hardware.drifts.front();
  CHECK(drift.handled);
  CHECK(drift.during.find("trial ") == 0);
  CHECK(drift.since_step >= changed - 10);
  CHECK(drift.since_step <= changed + 10);
  CHECK(drift.before_ms == Approx(80).epsilon(0.05));
  CHECK(drift.after_ms == Approx(120).epsilon(0.05));
  CHECK(drift.what == "the link of node n0 to n1 is at 50 % of its bandwidth");
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().incumbent_measured.mean_ms == Approx(120).epsilon(0.05));
  // What was tried since the change is not tried again, nothing more often than twice, and tuning begins anew once.
  std::map<std::string, int> tried;
  for (const Trial& trial : one.state().trials) {
    ++tried[trial.plan.hash];
    if (trial.id > one.state().trials_before_drift) CHECK(trial.begun_step >= drift.since_step);
  }
  for (const auto& [plan, times] : tried) CHECK(times <= 2);
  CHECK(one.state().trials.size() < 12);
  CHECK(one.state().hardware.retuned_step > changed);
  CHECK(one.state().hardware.retune_wait == 500);
}

TEST_CASE("machines that change again and again while jobs are tuned do not keep them tuning") {
  FakeWorld one = tuning_world();
  std::set<std::int64_t> retuned;
  one.after_event = [&] {
    one.faults.slowdown = one.state().step / 60 % 2 == 0 ? 1.5 : 1;
    retuned.insert(one.state().hardware.retuned_step);
  };
  REQUIRE(one.run([] { return false; }, 400'000));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  for (auto at = std::next(retuned.begin(), 2); at != retuned.end(); ++at) CHECK(*at - *std::prev(at) >= 500);
  CHECK(retuned.size() <= 12);
}

TEST_CASE("the first steps after tuning are watched, beside what the adopted plan's trial has shown") {
  FakeWorld one = tuning_world();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  REQUIRE(one.state().hardware.drifts.empty());
  const std::int64_t changed = one.state().step;
  one.faults.slowdown = 1.3;
  REQUIRE(one.run([&] { return !one.state().hardware.drifts.empty(); }));
  CHECK(one.state().hardware.drifts.front().before_ms == Approx(80).epsilon(0.05));
  CHECK(one.state().hardware.drifts.front().noticed_step <= changed + 50);
  CHECK(one.state().hardware.drifts.front().during.empty());
}

TEST_CASE("a plan that hung is tried again once costs have changed, and one that crashed is not") {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.steps = 4000;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 60, 75}}, 5, 0.01);
  one.faults.hang = {"best"};
  one.faults.crash = {"worse"};
  one.begin();
  const auto trains = [&one] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; };
  REQUIRE(one.run(trains));
  REQUIRE(one.running_plan() == "initial");
  CHECK(one.state().hung_hashes == std::vector<std::string>{"best"});
  CHECK(one.state().failed_hashes == std::vector<std::string>{"worse"});
  one.faults.hang.clear();
  one.faults.crash.clear();
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  CHECK(one.state().trials.size() == 2);
  one.faults.slowdown = 1.5;
  REQUIRE(one.run([&] { return one.state().hardware.retuned_step > 0 && trains(); }));
  INFO(one.history());
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().hung_hashes.empty());
  CHECK(one.state().trials.size() == 3);
  CHECK(one.state().hardware.drifts.back().trials_before == 2);
  const auto report = nlohmann::json::parse(report_json(one.state(), "{}", {}, {}));
  CHECK(report["drifts"].back()["trials_before"] == 2);
}

TEST_CASE("a search that finds no plan for fewer nodes is made again, and a coordinator's start is no node's loss") {
  TuningState state;
  state.job = fake_job();
  state.job.world_size = 4;
  state.phase = Phase::kTraining;
  state.job.elastic = true;
  state.nodes = {{"n0", 0, 2}, {"n1", 2, 2}};
  state.cluster = small_input(1, 2).cluster;
  state.initial = state.incumbent = {"initial", "initial"};
  state.epoch_hashes = {{1, "initial"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  Tuning tuning(state);
  ManualClock clock;
  clock.advance(std::chrono::hours(1));
  const auto feed = [&](const Event& event) { return tuning.handle(event, {clock.monotonic(), clock.wall()}).actions; };
  (void)tuning.resume({clock.monotonic(), clock.wall()});
  (void)feed(NodeBack{"n0", {{0, 1, 1}, {1, 1, 1}}});
  CHECK_FALSE(asks_for_spare(feed(Tick{})));
  clock.advance(std::chrono::seconds(5));
  CHECK(asks_for_spare(feed(Tick{})));
  SearchReply nothing;
  nothing.infeasible = "no plan fits";
  (void)feed(SearchFinished{tuning.state().search.searches, nothing});
  CHECK_FALSE(asks_for_spare(feed(Tick{})));
  clock.advance(std::chrono::minutes(11));
  REQUIRE(asks_for_spare(feed(Tick{})));
  SearchReply found;
  found.candidates.push_back({{"small", "small"}, "small", {200, 200, 180, 220, true}});
  (void)feed(SearchFinished{tuning.state().search.searches, found});
  (void)feed(Tick{});
  CHECK(tuning.state().world_size() == 2);
  CHECK(tuning.state().incumbent.hash == "small");
}

TEST_CASE("what tuning again has adopted is compared with the plan that it began from, and left if it is slower") {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.trials.max_trials = 1;
  job.steps = 20'000;
  FakeWorld one(job, {{"initial", 100, 110}, {"former", 90, 70}, {"later", 60, 75}}, 5, 0.01);
  one.begin();
  const auto trains = [&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; };
  REQUIRE(one.run([&] { return trains() && one.state().compared; }));
  REQUIRE(one.state().incumbent.hash == "former");
  one.faults.slowdown = 1.5;
  REQUIRE(one.run([&] { return one.state().phase == Phase::kComparing; }));
  CHECK(one.state().incumbent.hash == "later");
  CHECK(one.state().retuned_from.plan.hash == "former");
  SECTION("it is faster") {
    REQUIRE(one.run(trains));
    INFO(one.history());
    CHECK(one.state().retuned_compared);
    CHECK_FALSE(one.state().compared);
    CHECK(one.state().retuned_ratio.ratio == Approx(1.5).epsilon(0.03));
    CHECK(one.state().incumbent.hash == "later");
    CHECK(one.state().incumbent_measured.mean_ms == Approx(90).epsilon(0.03));
    CHECK_THAT(one.history(), Catch::Contains("x as fast as the former one"));
  }
  SECTION("it is slower by now") {
    one.set_true_ms("later", 120);
    REQUIRE(one.run(trains));
    INFO(one.history());
    CHECK(one.state().incumbent.hash == "former");
    CHECK(one.running_plan() == "former");
    CHECK(one.state().incumbent_measured.mean_ms == Approx(135).epsilon(0.03));
    CHECK_THAT(one.history(), Catch::Contains("it is surely slower after all: go back to the former plan"));
  }
}

TEST_CASE("the report tells what tuning again has gained, over all plans that were adopted since") {
  TuningState state;
  const auto retuned = [&state] { return nlohmann::json::parse(report_json(state, "{}", {}, {}))["retuned"]; };
  const auto trial = [&state](TrialState verdict, Ratio ratio) {
    Trial one;
    one.id = static_cast<std::int32_t>(state.trials.size()) + 1;
    one.state = verdict;
    one.ratio = ratio;
    state.trials.push_back(one);
  };
  trial(TrialState::kAdopted, {2, 1.9, 2.1});
  CHECK(retuned().is_null());
  state.hardware.drifts.push_back({});
  CHECK(retuned().is_null());
  state.trials_before_tuning = state.hardware.drifts.back().trials_before = 1;
  state.hardware.retune_wait = 500;
  CHECK(retuned().is_null());
  trial(TrialState::kAdopted, {1.5, 1.2, 1.8});
  trial(TrialState::kRejected, {0.9, 0.8, 1.0});
  trial(TrialState::kAdopted, {1.2, 1.1, 1.3});
  CHECK(retuned()["ratio"].get<double>() == Approx(1.8));
  CHECK(std::log(1.8 / retuned()["low"].get<double>()) == Approx(std::hypot(std::log(1.5 / 1.2), std::log(1.2 / 1.1))));
  CHECK(std::log(retuned()["high"].get<double>() / 1.8) ==
        Approx(std::hypot(std::log(1.8 / 1.5), std::log(1.3 / 1.2))));
  // Two by luck: what was kept beside what tuning began from says more.
  state.retuned_from.plan = {"before", "before"};
  state.incumbent = {"now", "now"};
  state.retuned_ratio = {1.5, 1.4, 1.6};
  state.retuned_compared = true;
  CHECK(retuned()["ratio"].get<double>() == Approx(1.5));
  CHECK(retuned()["low"].get<double>() == Approx(1.4));
  state.incumbent = state.retuned_from.plan;
  CHECK(retuned().is_null());
}
