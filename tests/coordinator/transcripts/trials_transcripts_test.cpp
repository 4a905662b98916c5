// Trials of jobs that change their plan while they run: good plans, bad ones and broken ones.

#include <functional>

#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Broken {
  std::string name;
  std::function<void(Faults&)> breaks;
};

void change_plan_to(Story& story, const std::string& plan) {
  story.run_until([&] { return story.world.running_plan() == plan; });
}

}  // namespace

TEST_CASE("transcript of a plan that is adopted, one that is rejected, the comparison and the untuned run",
          "[transcripts]") {
  Story story("adopted", fake_job(), three_plans());
  story.begin(true);
  story.run_to_end();
  story.check(true);
}

TEST_CASE("transcripts of plans that are broken", "[transcripts]") {
  const std::set<std::string> worse = {"worse"};
  const std::vector<Broken> all = {
      {"refused", [&](Faults& faults) { faults.refuse = worse; }},
      {"out-of-memory-refused", [&](Faults& faults) { faults.refuse_memory = worse; }},
      {"out-of-memory", [&](Faults& faults) { faults.fail_memory = worse; }},
      {"crash", [&](Faults& faults) { faults.crash = worse; }},
      {"hang", [&](Faults& faults) { faults.hang = worse; }},
      {"half-active", [&](Faults& faults) { faults.half_active = worse; }},
      {"no-acknowledgement", [&](Faults& faults) { faults.no_ack = worse; }},
      {"commit-ignored", [&](Faults& faults) { faults.ignore_commit = worse; }},
      {"cancel-ignored", [&](Faults& faults) { faults.ignore_commit = faults.ignore_cancel = worse; }},
      {"clock", [&](Faults& faults) { faults.clock["worse"] = 0.7; }},
      {"crash-after-steps", [&](Faults& faults) { faults.crash_after["worse"] = 4; }},
  };
  for (const Broken& one : all) {
    Story story("broken-" + one.name, fake_job(), plans_of_story());
    one.breaks(story.world.faults);
    story.begin();
    story.run_until([&] { return story.state().has_trial() && story.state().doing == Doing::kChangingPlan; });
    story.skip();
    story.run_until([&] { return story.state().trials_begun() >= 2; });
    story.check();
  }
}

TEST_CASE("transcript of a plan that is given up after its first block, and one that warms up long", "[transcripts]") {
  Story story("rejected", training_job(600), {{"initial", 100, 110}, {"awful", 300, 75}, {"slower", 105, 80}});
  story.world.faults.preparing_steps = 4;
  story.begin();
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcript of a trial that needs many pairs, and near copies that are not tried", "[transcripts]") {
  Story story("near-copies", training_job(900),
              {{"initial", 100, 110}, {"best", 94, 80, "layout"}, {"copy", 60, 80.5, "layout"}, {"twin", 98, 84}}, 7,
              0.05);
  story.begin();
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcript of trials that may cost little", "[transcripts]") {
  Job job = training_job(600);
  job.trials.overhead = 0.05;
  Story story("overhead", job, plans_of_story());
  story.begin();
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcript of an adopted plan that fails after all, and of ranks that run what nobody agreed on",
          "[transcripts]") {
  Story story("adopted-fails", training_job(900), plans_of_story());
  story.begin();
  story.run_to_training();
  story.run_steps(30);
  story.skip();
  story.say("the ranks say that they run an epoch that nobody knows");
  for (std::int64_t step = 1000; step < 1002; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      story.feed(FromRank{rank, story.state().launch, RankStep{step, 99, 50, 1, "", 0}});
    }
  }
  story.run_until([&] { return story.state().doing == Doing::kNothing; });
  story.say("the adopted plan fails");
  const std::uint64_t epoch = story.state().committed_epoch;
  for (int rank = 0; rank < 2; ++rank) {
    story.feed(FromRank{rank, story.state().launch, RankFailed{epoch, "loss", "the loss became nan"}});
  }
  change_plan_to(story, "initial");
  story.run_to_end();
  story.check();
}

TEST_CASE("transcript of an adopted plan that fails while it is compared", "[transcripts]") {
  Story story("comparison-fails", fake_job(), two_plans_of_story());
  story.begin();
  story.run_until([&] {
    return story.state().phase == Phase::kComparing && story.state().doing == Doing::kMeasuring &&
           story.world.running_plan() == "best";
  });
  story.skip();
  story.feed(FromRank{0, story.state().launch, RankFailed{story.state().committed_epoch, "loss", "it rose"}});
  story.run_to_end();
  story.check();
}

TEST_CASE("transcript of what ranks tell late, twice, or of nothing that is known", "[transcripts]") {
  Story story("late-messages", training_job(300), two_plans_of_story());
  story.begin();
  story.run_to_trial();
  const std::uint64_t launch = story.state().launch;
  for (const std::uint64_t epoch : {std::uint64_t{0}, story.state().launch_epoch, std::uint64_t{99}}) {
    story.feed(FromRank{0, launch, RankAcknowledged{epoch, 3}});
    story.feed(FromRank{1, launch, RankRefused{epoch, "memory", "late"}});
    story.feed(FromRank{1, launch, RankFailed{epoch, "out_of_memory", "late"}});
  }
  story.feed(FromRank{1, launch - 1, RankExited{1, 0, "of an earlier launch"}});
  story.feed(FromRank{9, launch, RankExited{1, 0, "no such rank"}});
  story.feed(CommandFinished{"launch/1/n0", false, "late", ""});
  story.feed(SearchFinished{1, {}});
  story.feed(HardwareProbed{{}, "late", ""});
  story.feed(Order::kApprove);
  story.feed(Order::kUnfreeze);
  story.feed(Order::kResume);
  story.run_until([&] { return !story.state().has_trial(); });
  story.check();
}

TEST_CASE("transcript of ranks that tell where their steps go", "[transcripts]") {
  Story story("passes", training_job(300), two_plans_of_story());
  story.begin();
  story.run_to_phase(Phase::kMeasuring);
  const std::uint64_t launch = story.state().launch;
  const std::uint64_t epoch = story.state().launch_epoch;
  story.feed(FromRank{0, launch, RankPasses{epoch, 40, StepTerms{40, 0, 10, 20, 30}}});
  story.feed(FromRank{0, launch, RankPasses{epoch, 40, StepTerms{40, 0, 1e12, 20, 30}}});
  story.feed(FromRank{1, launch, RankPasses{epoch, 60}});
  story.run_until([&] { return story.world.running_plan() == "best"; });
  story.feed(FromRank{0, launch, RankPasses{story.state().committed_epoch, 30, StepTerms{30, 0, 5, 15, 20}}});
  story.run_to_end_of_trials();
  story.check();
}
