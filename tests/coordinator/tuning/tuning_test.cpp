#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

FakeWorld world(std::vector<FakePlan> plans = three_plans(), std::uint64_t seed = 7, double noise = 0.03) {
  return FakeWorld(fake_job(), std::move(plans), seed, noise);
}

// The first of that plan.
const Trial* trial_of(const FakeWorld& of, const std::string& plan) {
  for (const Trial& one : of.state().trials) {
    if (one.plan.hash == plan) return &one;
  }
  return nullptr;
}

// Runs the whole loop with "worse" broken in some way; whatever that is, the best plan is adopted in the end.
void check_rolls_back(FakeWorld& one, FailureReason reason) {
  one.begin();
  const bool ended = one.run();
  INFO(one.history());
  REQUIRE(ended);
  const Trial* failed = trial_of(one, "worse");
  REQUIRE(failed != nullptr);
  CHECK(failed->state == TrialState::kFailed);
  CHECK(failed->reason == reason);
  REQUIRE(trial_of(one, "best") != nullptr);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().phase == Phase::kFinished);
}

}  // namespace

TEST_CASE("the truly faster plan is adopted, compared once more and checked for its losses") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  const TuningState& state = one.state();
  CHECK(state.phase == Phase::kFinished);
  CHECK(state.incumbent.hash == "best");
  CHECK(trial_of(one, "worse")->state == TrialState::kRejected);
  CHECK(trial_of(one, "slow") == nullptr);
  CHECK(state.compared);
  CHECK(state.final_ratio.ratio == Approx(100.0 / 70).epsilon(0.05));
  CHECK(state.final_ratio.low > 1.3);
  CHECK(state.profiling.costs_reused == 4);
  CHECK(state.profiling.costs_wanted == 3);
  REQUIRE(state.untuned_losses.size() == 30);
  CHECK(state.untuned_losses.back().loss == Approx(state.losses.back().loss));
  CHECK(state.untuned_losses.back().samples == state.losses.back().samples);
}

// Three times as slow after each change of plan, and no step faster than the one before: the times alone do not show
// it.
TEST_CASE("steps in which ranks still compile are no measurements, where ranks say so") {
  const auto measured = [](bool told) {
    FakeWorld one = world();
    one.faults.preparing_steps = 6;
    one.faults.preparations_told = told;
    one.begin();
    REQUIRE(one.run());
    INFO(one.history());
    REQUIRE(trial_of(one, "best") != nullptr);
    CHECK((one.state().incumbent.hash == "best") == told);
    const bool all_warm = std::all_of(one.steps.begin(), one.steps.end(),
                                      [](const MeasuredStep& step) { return step.warmup || step.wall_ms < 150; });
    CHECK(all_warm == told);
    return trial_of(one, "best")->measured;
  };
  CHECK(measured(true).mean_ms == Approx(70).epsilon(0.05));
  CHECK(measured(true).high_ms < 80);
  CHECK(measured(false).mean_ms > 100);
}

TEST_CASE("a trial that follows a way back to the incumbent lets that warm up again") {
  FakeWorld one = world({{"initial", 100, 110}, {"awful", 300, 75}, {"slower", 105, 80}});
  one.faults.preparing_steps = 4;
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  REQUIRE(trial_of(one, "awful")->state == TrialState::kRejected);
  const Trial* second = trial_of(one, "slower");
  REQUIRE(second != nullptr);
  int warmed_up = 0;
  for (const MeasuredStep& step : one.steps) {
    if (step.trial != second->id || step.block != 0) continue;
    warmed_up += step.warmup ? 1 : 0;
    CHECK((step.warmup || step.wall_ms < 150));
  }
  CHECK(warmed_up > 0);
  CHECK(second->state == TrialState::kRejected);
}

TEST_CASE("a plan that is much slower is given up after its first block") {
  FakeWorld one = world({{"initial", 100, 110}, {"awful", 300, 50}});
  one.begin();
  REQUIRE(one.run());
  const Trial* awful = trial_of(one, "awful");
  REQUIRE(awful != nullptr);
  CHECK(awful->state == TrialState::kRejected);
  CHECK(awful->measured.steps == 5);
  CHECK(one.state().incumbent.hash == "initial");
}

TEST_CASE("a truly slower plan is not adopted more often than the error rate says") {
  int adopted = 0;
  constexpr int kSeeds = 200;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FakeWorld one = world({{"initial", 100, 110}, {"slower", 103, 80}}, seed, 0.08);
    one.begin();
    REQUIRE(one.run([&] { return one.state().phase == Phase::kComparing || !one.state().conclusion.empty(); }));
    if (trial_of(one, "slower")->state == TrialState::kAdopted) ++adopted;
  }
  INFO(adopted << " of " << kSeeds << " adopted, seeds 1 to " << kSeeds);
  CHECK(adopted <= kSeeds / 20);
}

TEST_CASE("near copies of a measured plan are not tried, and the events and the state say so") {
  FakeWorld one = world({{"initial", 100, 110},
                         {"best", 90, 80, "layout"},
                         {"copy", 60, 80.5, "layout"},
                         {"twin", 60, 80.6, "layout"},
                         {"other", 95, 84, "layout"}},
                        7, 0.01);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(trial_of(one, "best") != nullptr);
  CHECK(trial_of(one, "copy") == nullptr);
  CHECK(trial_of(one, "twin") == nullptr);
  CHECK(trial_of(one, "other") != nullptr);  // 5 % slower by prediction: that could be told
  REQUIRE(one.state().passed_over.size() == 2);
  CHECK(one.state().passed_over[0].plan.hash == "copy");
  CHECK(one.state().passed_over[0].why == "differs from trial 1 in recompute alone, by less than the noise of 1.0 %");
  CHECK(one.history().find("plan: a plan predicted at 80.5 ms is not tried: it differs from trial 1") !=
        std::string::npos);
}

TEST_CASE("a plan of another layout is tried however close its prediction is") {
  FakeWorld one = world({{"initial", 100, 110}, {"slow", 120, 80, "a"}, {"best", 70, 80.1, "b"}});
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("a plan that cannot gain what the job asks for, even at its best, is not tried") {
  Job job = fake_job();
  job.trials.minimum_gain = 0.2;
  // At the low end of its interval it would take 81 ms.
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 90}}, 3, 0.01);
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().trials.empty());
  CHECK(one.state().conclusion == "no plan that has not been tried may beat the incumbent by 20 %");
}

TEST_CASE("a trial that is not sure of its gain gets more blocks until it is") {
  int longer = 0;
  int adopted_longer = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FakeWorld one = world({{"initial", 100, 110}, {"better", 94, 80}}, seed, 0.06);
    one.begin();
    REQUIRE(one.run());
    const Trial* better = trial_of(one, "better");
    INFO("seed " << seed << "\n" << one.history());
    REQUIRE(better != nullptr);
    CHECK(better->measured.steps % 5 == 0);
    CHECK(better->measured.steps <= 30);
    CHECK(better->incumbent.steps == better->measured.steps);
    const bool more = better->measured.steps > 5;
    if (more) CHECK(one.history().find("not sure yet") != std::string::npos);
    longer += more ? 1 : 0;
    adopted_longer += more && better->state == TrialState::kAdopted ? 1 : 0;
  }
  CHECK(longer > 5);
  CHECK(adopted_longer > longer / 2);
}

TEST_CASE("a trial gets no more blocks than the job has steps for") {
  Job job = fake_job();
  job.steps = 100;  // the initial plan's 22, the trial's first pair, and hardly room for another with the comparison
  int unsure = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FakeWorld one(job, {{"initial", 100, 110}, {"better", 97, 80}}, seed, 0.06);
    one.begin();
    REQUIRE(one.run());
    const Trial* better = trial_of(one, "better");
    REQUIRE(better != nullptr);
    if (better->reason.kind() != FailureReason::kGainNotSure) continue;
    ++unsure;
    CHECK(better->measured.steps < 30);
  }
  CHECK(unsure > 0);
}

TEST_CASE("times and ratios in events are rounded as people would") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run());
  const std::string history = one.history();
  INFO(history);
  const auto between = [&history](const std::string& before, const std::string& behind) {
    const std::size_t begin = history.find(before);
    REQUIRE(begin != std::string::npos);
    const std::size_t end = history.find(behind, begin);
    REQUIRE(end != std::string::npos);
    return history.substr(begin + before.size(), end - begin - before.size());
  };
  CHECK(between("the initial plan takes ", " ms a step\n").size() <= 4);  // "98.7" or "101"
  CHECK(between("the adopted plan is ", "x as fast as the initial one\n").size() == 4);
  for (std::size_t i = 0; i + 4 < history.size(); ++i) {
    const bool long_fraction = history[i] == '.' && std::all_of(history.begin() + i + 1, history.begin() + i + 5,
                                                                [](char c) { return c >= '0' && c <= '9'; });
    CHECK_FALSE(long_fraction);
  }
}

TEST_CASE("a plan that is no faster is seldom adopted, though a trial looks up to three times") {
  int adopted = 0;
  int longer = 0;
  constexpr int kSeeds = 400;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    FakeWorld one = world({{"initial", 100, 110}, {"same", 100, 80}}, seed, 0.08);
    one.begin();
    REQUIRE(one.run([&] { return one.state().phase == Phase::kComparing || !one.state().conclusion.empty(); }));
    const Trial* same = trial_of(one, "same");
    REQUIRE(same != nullptr);
    if (same->state == TrialState::kAdopted) ++adopted;
    if (same->measured.steps > 5) ++longer;
  }
  INFO(adopted << " of " << kSeeds << " adopted, " << longer << " got more blocks, seeds 1 to " << kSeeds);
  CHECK(longer > kSeeds / 10);
  CHECK(adopted <= kSeeds / 20);
}

TEST_CASE("a plan that a rank refuses is rolled back") {
  FakeWorld one = world();
  one.faults.refuse = {"worse"};
  check_rolls_back(one, FailureReason::kRefused);
  CHECK(one.launches() == 2);  // the job and its untuned run
}

TEST_CASE("a plan whose change does not fit into memory is rolled back") {
  FakeWorld one = world();
  one.faults.refuse_memory = {"worse"};
  check_rolls_back(one, FailureReason::kOutOfMemory);
}

TEST_CASE("a plan that runs out of memory is rolled back without a launch") {
  FakeWorld one = world();
  one.faults.fail_memory = {"worse"};
  check_rolls_back(one, FailureReason::kOutOfMemory);
  CHECK(one.launches() == 2);
}

TEST_CASE("a plan that crashes a rank is rolled back by a launch with the incumbent") {
  FakeWorld one = world();
  one.faults.crash = {"worse"};
  check_rolls_back(one, FailureReason::kCrash);
  CHECK(one.launches() == 3);
}

TEST_CASE("a plan that hangs is rolled back by a launch with the incumbent") {
  FakeWorld one = world();
  one.faults.hang = {"worse"};
  check_rolls_back(one, FailureReason::kHang);
  CHECK(one.launches() == 3);
}

TEST_CASE("a plan that becomes active on some ranks only is rolled back by a launch") {
  FakeWorld one = world();
  one.faults.half_active = {"worse"};
  check_rolls_back(one, FailureReason::kHang);
}

TEST_CASE("a missing acknowledgement cancels the change and nobody switches") {
  FakeWorld one = world();
  one.faults.no_ack = {"worse"};
  bool ran_worse = false;
  one.after_event = [&] { ran_worse = ran_worse || one.running_plan() == "worse"; };
  check_rolls_back(one, FailureReason::kAgreementTimeout);
  CHECK_FALSE(ran_worse);
  CHECK(one.launches() == 2);
}

TEST_CASE("a commit without effect is cancelled and the ranks stay on the old plan") {
  FakeWorld one = world();
  one.faults.ignore_commit = {"worse"};
  check_rolls_back(one, FailureReason::kAgreementTimeout);
  CHECK(one.launches() == 2);
}

TEST_CASE("a cancelled change that takes effect all the same is rolled back") {
  FakeWorld one = world();
  one.faults.ignore_commit = {"worse"};
  one.faults.ignore_cancel = {"worse"};
  check_rolls_back(one, FailureReason::kAgreementTimeout);
}

TEST_CASE("ranks that run a plan which nobody agreed on are brought back to the incumbent") {
  Job job = fake_job();
  job.trials.stop_after = false;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining; }));
  for (std::int64_t step = 1000; step < 1002; ++step) {
    CHECK(one.state().doing == Doing::kNothing);
    for (int rank = 0; rank < 2; ++rank) one.feed(FromRank{rank, one.state().launch, RankStep{step, 99, 50, 1, "", 0}});
  }
  CHECK(one.state().doing == Doing::kRollingBack);
  REQUIRE(one.run([&] { return one.state().doing == Doing::kNothing; }));
  CHECK(one.running_plan() == "best");
}

TEST_CASE("an adopted plan that fails after all gives its place back") {
  Job job = fake_job();
  job.trials.stop_after = false;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }));
  REQUIRE(one.running_plan() == "best");
  const std::uint64_t epoch = one.state().committed_epoch;
  for (int rank = 0; rank < 2; ++rank) {
    one.feed(FromRank{rank, one.state().launch, RankFailed{epoch, "loss", "the loss became nan under the new plan"}});
  }
  CHECK(one.state().incumbent.hash == "initial");
  CHECK(trial_of(one, "best")->state == TrialState::kFailed);
  CHECK(trial_of(one, "best")->reason == FailureReason::kLoss);
  CHECK(one.state().failed_hashes.back() == "best");
  REQUIRE(one.run([&] { return one.state().doing == Doing::kNothing; }));
  CHECK(one.running_plan() == "initial");
}

TEST_CASE("an adopted plan that fails while it is compared ends the comparison") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] {
    return one.state().phase == Phase::kComparing && one.state().doing == Doing::kMeasuring &&
           one.running_plan() == "best";
  }));
  one.feed(FromRank{0, one.state().launch, RankFailed{one.state().committed_epoch, "loss", "it rose"}});
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "initial");
  CHECK_FALSE(one.state().compared);
}

TEST_CASE("an adopted plan that no launch brings to life gives its place back to the one that it took it from") {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.steps = 3000;
  const Delivery delivery = GENERATE(Delivery::kLive, Delivery::kRestart);
  job.delivery = delivery;
  // "better" is adopted first, then "best" in its place.
  FakeWorld one(job, {{"initial", 100, 110}, {"better", 80, 70}, {"best", 60, 75}}, 3, 0.02);
  one.begin();
  const auto settled = [&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; };
  REQUIRE(one.run(settled, 100000));
  INFO(one.history());
  REQUIRE(one.running_plan() == "best");
  REQUIRE(trial_of(one, "better")->state == TrialState::kAdopted);
  one.faults.crash_after["best"] = GENERATE(1, 40);
  REQUIRE(one.run([&] { return one.state().incumbent.hash != "best"; }, 100000));
  CHECK(one.state().incumbent.hash == "better");
  CHECK(one.state().incumbent_measured.mean_ms == Approx(80).epsilon(0.05));
  CHECK(trial_of(one, "best")->reason == FailureReason::kCrash);
  CHECK_THAT(trial_of(one, "best")->message, Catch::Contains("crashed 4 times") && Catch::Contains("last words"));
  CHECK(one.state().failed_hashes.back() == "best");
  REQUIRE(one.run([&] { return settled() && one.running_plan() == "better"; }, 100000));
  CHECK(one.state().phase == Phase::kTraining);
}

TEST_CASE("what failed goes back through the plans that it replaced, and never to one that was found slower") {
  TuningState state;
  state.job = fake_job();
  state.phase = Phase::kTraining;
  state.nodes = {{"n0", 0, 2}};
  state.initial = {"initial", "initial"};
  state.incumbent = {"b", "b"};
  state.epoch_hashes = {{1, "b"}};
  state.last_epoch = state.committed_epoch = state.launch_epoch = state.launch = 1;
  Trial adopted;
  adopted.state = TrialState::kAdopted;
  // "c" was adopted before a resize or left in the final comparison: no longer what "b" replaced.
  for (const char* plan : {"c", "a", "b"}) {
    adopted.id = static_cast<std::int32_t>(state.trials.size()) + 1;
    adopted.plan = {plan, plan};
    state.trials.push_back(adopted);
  }
  state.replaced = {{{"initial", "initial"}, {}, {100, 99, 101, 5}}, {{"a", "a"}, {}, {90, 89, 91, 5}}};
  Tuning tuning(state);
  (void)tuning.resume({});
  (void)tuning.handle(NodeBack{"n0", {{0, 1, 1}, {1, 1, 1}}}, {});
  (void)tuning.handle(FromRank{0, 1, RankFailed{1, "loss", "it rose"}}, {});
  CHECK(tuning.state().incumbent.hash == "a");
  CHECK(tuning.state().incumbent_measured.mean_ms == 90);
  REQUIRE(tuning.state().replaced.size() == 1);
  CHECK(tuning.state().replaced.back().plan.hash == "initial");
}

TEST_CASE("late and repeated messages of an old epoch change nothing") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTrials && one.state().doing == Doing::kMeasuring; }));
  const std::string before = to_json(one.state());
  const std::uint64_t launch = one.state().launch;
  for (const std::uint64_t epoch : {std::uint64_t{0}, one.state().launch_epoch, std::uint64_t{99}}) {
    one.feed(FromRank{0, launch, RankAcknowledged{epoch, 3}});
    one.feed(FromRank{1, launch, RankRefused{epoch, "memory", "late"}});
    one.feed(FromRank{1, launch, RankFailed{epoch, "out_of_memory", "late"}});
  }
  one.feed(FromRank{1, launch - 1, RankExited{1, 0, "of an earlier launch"}});
  one.feed(FromRank{9, launch, RankExited{1, 0, "no such rank"}});
  one.feed(CommandFinished{"launch/1/n0", false, "late", ""});
  one.feed(SearchFinished{1, {}});
  CHECK(to_json(one.state()) == before);
}

TEST_CASE("a crash that no candidate caused relaunches the incumbent and tuning goes on") {
  FakeWorld one = world();
  one.faults.crash_at_step = 4;  // while the initial plan is measured
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.launches() == 3);
}

TEST_CASE("a job that always crashes fails after a few launches, with the reason") {
  FakeWorld one = world();
  one.faults.crash_always = true;
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kFailed);
  CHECK(one.state().failure.find("exited with code 137; its last output: last words") != std::string::npos);
}

TEST_CASE("a rank lost in the untuned run begins that run again, a few times at most") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().untuned_losses.size() == 5; }));
  SECTION("once") {
    one.faults.crash_at_step = 9;
    REQUIRE(one.run());
    REQUIRE(one.state().untuned_losses.size() == 30);
    CHECK(one.state().untuned_losses.front().step == one.state().losses.front().step);
    CHECK(one.state().loss_note.empty());
    CHECK(one.launches() == 3);
  }
  SECTION("always") {
    one.faults.crash_always = true;
    REQUIRE(one.run());
    CHECK(one.launches() == 5);
    CHECK(one.state().loss_note.find("the untuned run failed 4 times") != std::string::npos);
  }
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("a launch that agents refuse fails the job") {
  FakeWorld one = world();
  one.faults.launch_fails = true;
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kFailed);
  CHECK(one.state().failure.find("refused by the fake") != std::string::npos);
}

TEST_CASE("a node that is lost in a trial fails the trial, and tuning goes on when it is back") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  one.lose_node("n1");
  CHECK(one.state().trials.back().reason == FailureReason::kAgentLost);
  CHECK(one.state().doing == Doing::kWaitingForNodes);
  (void)one.run([] { return false; }, 40);
  CHECK_FALSE(is_final(one.state().phase));
  one.return_node("n1");
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("a launch has a later number than any that an agent has had") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTrials && one.state().doing == Doing::kMeasuring; }));
  const std::uint64_t launch = one.state().launch;
  one.lose_node("n1");
  one.feed(NodeBack{"n1", {}, launch + 5});  // of a state that this one is an older copy of
  one.return_node("n1");
  REQUIRE(one.run([&] { return one.state().launch != launch; }));
  CHECK(one.state().launch == launch + 6);
}

TEST_CASE("a node that is lost and comes back without its ranks leads to a launch") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTrials && one.state().doing == Doing::kMeasuring; }));
  one.lose_node("n1");
  one.feed(NodeBack{"n1", {}});
  CHECK(one.state().doing == Doing::kKilling);
  one.return_node("n1");
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.launches() == 3);
}

TEST_CASE("a short absence of an agent in the middle of a change sends the change again") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kChangingPlan; }));
  const std::uint64_t epoch = one.state().last_epoch;
  one.return_node("n1");
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().trials.size() == 2);
  CHECK(epoch > 0);
}

TEST_CASE("a user's stop ends the ranks cleanly and the job is stopped") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTrials && one.state().doing == Doing::kMeasuring; }));
  one.feed(Order::kStop);
  CHECK(one.state().phase == Phase::kStopping);
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kStopped);
  CHECK(one.running_plan().empty());
}

TEST_CASE("a job that ends before tuning does is finished with what is known") {
  Job job = fake_job();
  job.steps = 20;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "initial");
  CHECK(one.state().initial_measured.steps == 5);
}

TEST_CASE("a job that goes on after tuning trains to its end with the adopted plan") {
  Job job = fake_job();
  job.trials.stop_after = false;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining; }));
  CHECK(one.running_plan() == "best");
  REQUIRE(one.run());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().step == 600);
  CHECK(one.state().untuned_losses.empty());
}

TEST_CASE("a benchmark command that measures nothing fails the job in its own words") {
  TuningState state;
  state.job = fake_job();
  Tuning tuning(state);
  ManualClock clock;
  const auto now = [&] { return Moment{clock.monotonic(), clock.wall()}; };
  (void)tuning.begin(now());
  (void)tuning.handle(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "f"}, now());
  (void)tuning.handle(CommandFinished{"describe", true, "", "{}"}, now());
  (void)tuning.handle(CostsCounted{0, 5, {"{}"}, {5}, "a, b", ""}, now());
  (void)tuning.handle(CommandFinished{"benchmark/0/n0", false, "there is no such program", ""}, now());
  clock.advance(std::chrono::minutes(1));
  (void)tuning.handle(CostsCounted{0, 5, {}, {}, "a, b", ""}, now());
  CHECK(tuning.state().phase == Phase::kFailed);
  CHECK(tuning.state().failure == "the job's benchmark command failed: there is no such program");
}

TEST_CASE("profiling alone ends when the costs are known") {
  TuningState state;
  state.job = fake_job();
  state.tune = false;
  Tuning tuning(state);
  (void)tuning.begin({});
  (void)tuning.handle(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "f"}, {});
  (void)tuning.handle(CommandFinished{"describe", true, "", "{}"}, {});
  (void)tuning.handle(CostsCounted{5, 0, {}, {}, "", ""}, {});
  CHECK(tuning.state().phase == Phase::kFinished);
  CHECK(tuning.state().profiling.costs_reused == 5);
}
