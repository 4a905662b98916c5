#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// "bad" crashes, so that kills and launches are among the transitions.
FakeWorld world() {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"best", 70, 80}, {"bad", 60, 75}}, 11, 0.03);
  one.faults.crash = {"bad"};
  return one;
}

void check_goes_on(int transition, bool lose_actions) {
  FakeWorld one = world();
  bool restarted = false;
  one.begin();
  const bool reached = one.run([&] { return one.transitions() >= transition; });
  INFO("restarted at transition " << transition << (lose_actions ? ", actions lost" : ", actions carried out"));
  REQUIRE(reached);
  if (!is_final(one.state().phase)) {
    one.restart_coordinator(lose_actions);
    restarted = true;
  }
  const bool ended = one.run();
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
  CHECK((restarted || is_final(one.state().phase)));
  for (const Trial& trial : one.state().trials) {
    CHECK((trial.state == TrialState::kAdopted || trial.state == TrialState::kRejected ||
           trial.state == TrialState::kFailed));
  }
}

int transitions_of_a_run() {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run());
  return one.transitions();
}

}  // namespace

TEST_CASE("a coordinator that dies at any transition, before acting on it, is followed by one that goes on") {
  const int transitions = transitions_of_a_run();
  REQUIRE(transitions > 40);
  for (int i = 1; i < transitions; ++i) check_goes_on(i, true);
}

TEST_CASE("a coordinator that dies at any transition, after acting on it, is followed by one that goes on") {
  const int transitions = transitions_of_a_run();
  for (int i = 1; i < transitions; ++i) check_goes_on(i, false);
}

TEST_CASE("a trial that a restart interrupts has failed and its plan may be tried again") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] {
    return one.state().has_trial() && one.state().trials.back().plan.hash == "best" && one.running_plan() == "best";
  }));
  const std::size_t trials = one.state().trials.size();
  one.restart_coordinator(true);
  CHECK(one.state().trials[trials - 1].reason == FailureReason::kCoordinatorRestarted);
  REQUIRE(one.run([&] { return one.running_plan() == "initial"; }));
  REQUIRE(one.run());
  CHECK(one.state().trials.size() > trials);
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("the persisted state reads back as it was written") {
  FakeWorld one = world();
  std::set<std::string> phases;
  one.after_event = [&] {
    const std::string text = to_json(one.state());
    auto back = parse_tuning_state(text);
    REQUIRE(back.ok());
    REQUIRE(to_json(*back) == text);
    phases.insert(std::string(to_string(one.state().phase)));
  };
  one.begin();
  REQUIRE(one.run());
  CHECK(phases.size() >= 9);
}

TEST_CASE("a state that cannot be read is an error that says so") {
  for (const char* text : {"", "{}", "[1]", R"({"job": 3})"}) {
    const auto state = parse_tuning_state(text);
    REQUIRE_FALSE(state.ok());
    CHECK(state.error().message.find("stored state") != std::string::npos);
  }
}

TEST_CASE(
    "a coordinator that dies before an agent could say that its launch is done goes on with the ranks that it has") {
  TuningState state;
  state.job = fake_job();
  state.job.steps = 100'000;
  state.phase = Phase::kTrials;
  state.doing = Doing::kLaunching;
  state.nodes = {{"n0", 0, 1}, {"n1", 1, 1}};
  state.initial = state.incumbent = {"best", "best"};
  state.incumbent_measured = {100, 99, 101, 20};
  state.epoch_hashes = {{1, "best"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  state.outstanding = {{"launch/1/n1", "n1", CommandKind::kLaunch}};
  Tuning first(state);
  (void)first.resume({});
  for (const std::int32_t rank : {0, 1}) {
    (void)first.handle(NodeBack{"n" + std::to_string(rank), {{rank, 1, 1}}, 1}, {});
  }
  for (const std::int32_t rank : {0, 1}) (void)first.handle(FromRank{rank, 1, RankStep{10, 1, 100, 1, "", 0}}, {});
  REQUIRE(first.state().doing == Doing::kSearching);
  const std::uint64_t searches = first.state().search.searches;
  Tuning second(parse_tuning_state(to_json(first.state())).value());
  (void)second.resume({});
  for (const std::int32_t rank : {0, 1}) {
    (void)second.handle(NodeBack{"n" + std::to_string(rank), {{rank, 1, 1}}, 1}, {});
  }
  CHECK(second.state().doing == Doing::kSearching);
  CHECK(second.state().search.searches > searches);
}

TEST_CASE("a job that is unfrozen before every node is back after a restart waits for them, and tries then") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.running_plan() == one.state().trials.back().plan.hash; }));
  one.feed(Order::kFreeze);
  REQUIRE(one.run([&] { return one.state().doing == Doing::kNothing && one.running_plan() == "initial"; }));
  Tuning tuning(parse_tuning_state(to_json(one.state())).value());
  REQUIRE(tuning.state().phase == Phase::kTrials);
  const std::uint64_t searches = tuning.state().search.searches;
  (void)tuning.resume({});
  (void)tuning.handle(Order::kUnfreeze, {});
  CHECK(tuning.state().search.searches == searches);
  CHECK(tuning.state().doing == Doing::kNothing);
  const std::uint64_t epoch = one.state().last_epoch;
  const std::uint64_t launch = one.state().launch;
  (void)tuning.handle(NodeBack{"n0", {{0, launch, epoch}}, launch}, {});
  CHECK(tuning.state().search.searches == searches);
  (void)tuning.handle(NodeBack{"n1", {{1, launch, epoch}}, launch}, {});
  CHECK(tuning.state().search.searches == searches + 1);
  CHECK(tuning.state().doing == Doing::kSearching);
}

TEST_CASE("a trial that waits for an approval which nobody is asked for ends with the coordinator's restart") {
  FakeWorld one(fake_job(JobMode::kApprove), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }));
  TuningState state = parse_tuning_state(to_json(one.state())).value();
  CHECK(state.has_trial());
  state.job.mode = JobMode::kAuto;  // as an earlier release may have left it
  Tuning tuning(state);
  (void)tuning.resume({});
  CHECK_FALSE(tuning.state().has_trial());
  const std::uint64_t launch = state.launch;
  (void)tuning.handle(NodeBack{"n0", {{0, launch, state.last_epoch}}, launch}, {});
  (void)tuning.handle(NodeBack{"n1", {{1, launch, state.last_epoch}}, launch}, {});
  CHECK(tuning.state().doing == Doing::kSearching);
}
