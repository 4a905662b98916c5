// What people allow: modes, approval, freeze, kill switches and stops.

#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

bool awaits(const Story& story) {
  return story.state().doing == Doing::kAwaitingApproval;
}

}  // namespace

TEST_CASE("transcripts of modes observe and recommend", "[transcripts]") {
  Story observes("observe", training_job(120, JobMode::kObserve), plans_of_story());
  observes.begin();
  observes.run_to_end();
  observes.check();
  Story recommends("recommend", fake_job(JobMode::kRecommend), plans_of_story());
  recommends.begin();
  recommends.run_to_end();
  recommends.check();
}

TEST_CASE("transcript of trials that await approval", "[transcripts]") {
  Story story("approve", fake_job(JobMode::kApprove), plans_of_story(), 3);
  story.begin();
  story.run_until([&] { return awaits(story); });
  story.run_rounds(30);
  story.feed(Order::kApprove);
  story.run_until([&] { return awaits(story); });
  story.say("somebody freezes, approves, unfreezes");
  story.feed(Order::kFreeze);
  story.feed(Order::kApprove);
  story.feed(Order::kUnfreeze);
  story.run_until([&] { return awaits(story); });
  story.feed(Order::kApprove);
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcript of a question that is withdrawn because steps take longer", "[transcripts]") {
  Story story("approve-withdrawn", fake_job(JobMode::kApprove), plans_of_story(), 3, 0.01);
  story.begin();
  story.run_until([&] { return awaits(story); });
  story.run_steps(100);
  story.world.faults.slowdown = 1.5;
  story.run_until([&] { return !story.state().has_trial(); });
  story.feed(Order::kApprove);
  story.run_until([&] { return awaits(story); });
  story.feed(Order::kApprove);
  story.run_to_trial();
  story.check();
}

TEST_CASE("transcript of freezing in a trial and in the comparison", "[transcripts]") {
  Story story("freeze", training_job(600), two_plans_of_story());
  story.begin();
  story.run_to_trial();
  story.skip();
  story.feed(Order::kFreeze);
  story.run_rounds(200);
  story.feed(Order::kUnfreeze);
  story.run_until([&] { return story.state().phase == Phase::kComparing && story.world.running_plan() == "initial"; });
  story.feed(Order::kFreeze);
  story.run_to_end();
  story.check();
}

TEST_CASE("transcript of going back to the plan that the job began with, after a better one was adopted",
          "[transcripts]") {
  Story story("own-plan", training_job(600), two_plans_of_story());
  story.begin();
  story.run_to_training();
  REQUIRE(story.state().incumbent.hash != story.state().initial.hash);
  story.skip();
  story.feed(Order::kOwnPlan);
  story.run_steps(20);
  CHECK(story.world.running_plan() == "initial");
  CHECK(story.state().incumbent.hash == story.state().initial.hash);
  story.feed(Order::kOwnPlan);
  story.run_steps(5);
  story.check();
}

TEST_CASE("the plan that the job began with is kept whatever was under way", "[transcripts]") {
  for (const TrialState at :
       {TrialState::kProposed, TrialState::kStaged, TrialState::kWarming, TrialState::kMeasuring}) {
    Story story("own-plan-within", training_job(600), plans_of_story());
    story.begin();
    story.run_until([&] {
      return story.state().trials.size() > 1 && story.state().has_trial() && story.state().trials.back().state == at;
    });
    story.feed(Order::kOwnPlan);
    const std::size_t trials = story.state().trials.size();
    story.run_steps(60);
    CHECK(story.world.running_plan() == "initial");
    CHECK(story.state().trials.size() == trials);
    CHECK_FALSE(story.state().has_trial());
  }
}

TEST_CASE("a trial that awaits approval is over when the job's first plan is wanted", "[transcripts]") {
  Story story("own-plan-approval", fake_job(JobMode::kApprove), plans_of_story(), 3);
  story.begin();
  story.run_until([&] { return awaits(story); });
  story.feed(Order::kApprove);
  story.run_until([&] { return awaits(story) && story.state().trials.size() > 1; });
  story.feed(Order::kOwnPlan);
  story.run_steps(20);
  CHECK(story.world.running_plan() == "initial");
  CHECK(story.state().frozen);
}

TEST_CASE("transcript of kill switches in a trial, and with a freeze", "[transcripts]") {
  Story story("kill-switch", training_job(600), plans_of_story());
  story.begin();
  story.run_to_trial();
  story.feed(KillSwitches{{"of another cluster's node"}});
  story.feed(KillSwitches{{"n1"}});
  story.run_rounds(200);
  story.feed(Order::kFreeze);
  story.feed(KillSwitches{});
  story.run_rounds(50);
  story.feed(Order::kUnfreeze);
  story.run_until([&] { return story.state().has_trial() && story.state().doing == Doing::kChangingPlan; });
  story.say("a rank refuses for a switch that nobody here has heard of");
  story.feed(FromRank{1, story.state().launch, RankRefused{story.state().last_epoch, "kill_switch", "thrown on n1"}});
  story.run_until([&] { return story.state().has_trial() && story.state().doing == Doing::kMeasuring; });
  story.say("a rank leaves the incumbent for such a switch");
  story.feed(FromRank{1, story.state().launch, RankFailed{story.state().committed_epoch, "kill_switch", "thrown"}});
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcripts of a person's stop: in a trial, in profiling, while a node is away, twice", "[transcripts]") {
  Story in_trial("stop-in-trial", fake_job(), two_plans_of_story());
  in_trial.begin();
  in_trial.run_to_trial();
  in_trial.feed(Order::kStop);
  in_trial.feed(Order::kStop);
  in_trial.run_to_end();
  in_trial.check();

  Story profiling("stop-in-profiling", fake_job(), two_plans_of_story());
  profiling.world.faults.benchmarks_take_long = true;
  profiling.begin(true);
  profiling.run_until(
      [&] { return profiling.state().phase == Phase::kProfiling && !profiling.state().outstanding.empty(); });
  profiling.feed(CommandMoved{"benchmark/0/n0", 1, 3, "a"});
  profiling.feed(Order::kStop);
  profiling.run_to_end();
  profiling.check();

  Story away("stop-while-away", training_job(600), two_plans_of_story());
  away.begin();
  away.run_to_training();
  away.skip();
  away.world.lose_node("n1");
  away.feed(Order::kStop);
  away.world.lose_node("n0");
  away.run_to_end();
  away.check();
}
