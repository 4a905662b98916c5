// The machine changes: drifts, looks at the hardware, crashes, silence, nodes that go and come, coordinators that end.

#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A device on each of two nodes and the link between them, which delivers so much of its bandwidth.
std::vector<Probe> hardware(double link_share = 1) {
  return {{0, "n0", "", "", 10, "computation"},
          {1, "n1", "", "", 10, "computation"},
          {-1, "n0", "n1", "inter_node", 10 / link_share}};
}

Job looking_job(std::int64_t steps) {
  Job job = training_job(steps);
  job.trials.look_every = std::chrono::seconds(5);
  return job;
}

void train(Story& story) {
  story.begin();
  story.run_to_training();
  story.skip();
}

void run_until_tuned_again(Story& story) {
  const std::int64_t before = story.state().hardware.retuned_step;
  story.run_until([&] { return story.state().hardware.retuned_step > before; });
  story.run_to_training();
}

void restart_coordinator(Story& story, bool lose_actions) {
  story.say(lose_actions ? "another coordinator goes on; the last actions are lost"
                         : "another coordinator goes on; the last actions are done");
  story.world.restart_coordinator(lose_actions);
}

void train_until_the_link_slows(Story& story) {
  story.world.faults.probes = hardware();
  train(story);
  story.run_steps(100);
  story.say("steps take half as long again, the link delivers 38 %");
  story.world.faults.slowdown = 1.5;
  story.world.faults.probes = hardware(0.38);
}

}  // namespace

TEST_CASE("transcript of a link that gets slower while the job trains, and recovers", "[transcripts]") {
  Story story("drift-in-training", looking_job(4000), plans_of_story(), 5, 0.01);
  train_until_the_link_slows(story);
  run_until_tuned_again(story);
  story.say("the link is as before, the steps are not");
  story.world.faults.probes = hardware();
  run_until_tuned_again(story);
  story.check();
}

TEST_CASE("transcript of a link whose costs the ranks measure again", "[transcripts]") {
  Story story("drift-measured-again", training_job(4000), plans_of_story(), 5, 0.01);
  train_until_the_link_slows(story);
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = "all_reduce";
  key.bytes = 1 << 20;
  key.group_size = 2;
  key.placement = "inter_node";
  story.world.faults.doubtful = {3, {{{{key, 10e6, 26e6}}, {}, {}, -1}}, "{\"items\":[]}"};
  story.world.faults.measured_times = 0.9;
  run_until_tuned_again(story);
  story.check();
}

TEST_CASE("transcript of a machine that changes while the job is tuned", "[transcripts]") {
  Job job = training_job(4000);
  job.trials.max_trials = 12;
  Story story("drift-in-tuning", job,
              {{"initial", 100, 110}, {"best", 80, 70}, {"a", 95, 71}, {"b", 94, 72}, {"c", 96, 73}}, 5, 0.01);
  story.world.faults.probes = hardware();
  story.begin();
  story.run_until([&] { return story.state().trials.size() == 2; });
  story.skip();
  story.world.faults.slowdown = 1.5;
  story.world.faults.probes = hardware(0.5);
  story.run_to_training();
  story.check();
}

TEST_CASE("transcript of a link that gets slower though no step changes, for which another plan is tried",
          "[transcripts]") {
  Story story("slower-found", looking_job(4000), plans_of_story(), 5, 0.01);
  story.world.faults.probes = hardware();
  train(story);
  story.run_steps(600);
  story.world.faults.probes = hardware(0.4);
  run_until_tuned_again(story);
  story.check();
}

TEST_CASE("transcript of drifts that nobody can explain, one after the other, under a plan that fails",
          "[transcripts]") {
  Story story("drift-unexplained", training_job(4000), plans_of_story(), 5, 0.01);
  train(story);
  story.run_steps(100);
  story.world.faults.slowdown = 1.5;
  story.run_until([&] { return story.state().doing == Doing::kProbing; });
  story.feed(FromRank{0, story.state().launch, RankFailed{story.state().committed_epoch, "loss", "it rose"}});
  story.run_until([&] { return story.state().hardware.retuned_step > 0; });
  story.run_to_training();
  story.run_steps(100);
  story.world.faults.slowdown = 1;
  story.run_until([&] { return story.state().hardware.drifts.size() == 2; });
  story.run_to_training();
  story.run_steps(50);
  story.check();
}

TEST_CASE("transcript of tuning again that leaves what it adopted", "[transcripts]") {
  Job job = training_job(8000);
  job.trials.max_trials = 1;
  Story story("tuned-again-and-left", job, {{"initial", 100, 110}, {"former", 90, 70}, {"later", 60, 75}}, 5, 0.01);
  story.begin();
  story.run_until([&] { return story.state().phase == Phase::kTraining && story.state().compared; });
  story.skip();
  story.world.faults.slowdown = 1.5;
  story.run_to_phase(Phase::kComparing);
  story.skip();
  story.world.set_true_ms("later", 120);
  story.run_to_training();
  story.check();
}

TEST_CASE("transcript of a plan that hung and is tried again once costs have changed", "[transcripts]") {
  Story story("hung-once", training_job(3000), two_plans_of_story(), 5, 0.01);
  story.world.faults.hang = {"best"};
  story.begin();
  story.run_to_training();
  story.skip();
  story.world.faults.hang.clear();
  story.run_steps(100);
  story.skip();
  story.world.faults.slowdown = 1.5;
  run_until_tuned_again(story);
  story.check();
}

TEST_CASE("transcript of crashes: a plan is given up, then the job is halted, and goes on when it is told to",
          "[transcripts]") {
  Job job = training_job(3000);
  job.crashes = {1, std::chrono::hours(1), 200};
  Story story("crashes", job, {{"initial", 100, 110}, {"better", 80, 70}, {"best", 60, 75}}, 3);
  story.world.faults.snapshot_every = 10;
  train(story);
  for (const char* plan : {"initial", "better", "best"}) story.world.faults.crash_after[plan] = 30;
  const auto is_halted = [&] { return story.state().doing == Doing::kHalted; };
  story.run_until(is_halted);
  story.run_rounds(100);
  restart_coordinator(story, false);
  story.world.lose_node("n1");
  story.world.return_node("n1");
  story.run_rounds(100);
  REQUIRE(is_halted());
  story.world.faults.crash_after.clear();
  story.feed(Order::kResume);
  story.run_steps(20);
  story.check();
}

TEST_CASE("transcripts of jobs that never come to life", "[transcripts]") {
  Story refused("launch-refused", fake_job(), two_plans_of_story());
  refused.world.faults.launch_fails = true;
  refused.begin(true);
  refused.run_to_end();
  refused.check();
  Story crashes("crashes-always", fake_job(), two_plans_of_story());
  crashes.world.faults.crash_always = true;
  crashes.begin(true);
  crashes.run_to_end();
  crashes.check();
  Job job = training_job(600);
  job.crashes.within = std::chrono::seconds(60);
  Story meets("ranks-never-meet", job, two_plans_of_story());
  train(meets);
  meets.world.faults.ranks_never_meet = true;
  meets.run_until([&] { return meets.state().doing == Doing::kHalted; });
  meets.check();
}

TEST_CASE("transcript of crashes that no candidate caused: of the initial plan and of the untuned run",
          "[transcripts]") {
  Story story("crashes-of-its-own", fake_job(), two_plans_of_story());
  story.world.faults.crash_at_step = 4;
  story.begin();
  story.run_until([&] { return story.state().untuned_losses.size() == 5; });
  story.world.faults.crash_at_step = 9;
  story.run_to_end();
  story.check();
}

TEST_CASE("transcripts of ranks that are silent: an evaluation, a hang, in mode observe, in a trial", "[transcripts]") {
  for (const auto& [name, mode, hang] :
       {std::tuple{"silence-evaluation", JobMode::kAuto, 300}, std::tuple{"silence-hang", JobMode::kAuto, 30},
        std::tuple{"silence-observed", JobMode::kObserve, 30}}) {
    Job job = training_job(400, mode);
    job.hang = std::chrono::seconds(hang);
    Story story(name, job, two_plans_of_story());
    story.world.faults.pauses[350] = std::chrono::seconds(60);
    train(story);
    story.run_to_end();
    story.check();
  }
  Story story("silence-in-trial", training_job(400), two_plans_of_story());
  story.begin();
  story.run_to_trial();
  story.skip();
  story.world.faults.pauses[story.state().step + 1] = std::chrono::seconds(60);
  story.run_until([&] { return story.state().trials.front().state == TrialState::kFailed; });
  story.run_until([&] { return story.world.running_plan() == "initial"; });
  story.check();
}

TEST_CASE("transcripts of a node that goes and comes back: with its ranks, without, in a change", "[transcripts]") {
  Story with_ranks("node-back", training_job(300), two_plans_of_story());
  with_ranks.begin();
  with_ranks.run_to_trial();
  with_ranks.skip();
  with_ranks.world.lose_node("n1");
  with_ranks.run_rounds(40);
  with_ranks.world.return_node("n1");
  with_ranks.run_to_end_of_trials();
  with_ranks.check();

  Story without("node-back-without-ranks", training_job(300), two_plans_of_story());
  without.begin();
  without.run_to_trial();
  without.skip();
  const std::uint64_t launch = without.state().launch;
  without.world.lose_node("n1");
  without.feed(NodeBack{"n1", {}, launch + 5});
  without.world.return_node("n1");
  without.run_to_end_of_trials();
  without.check();

  Story in_change("node-back-in-change", training_job(300), two_plans_of_story());
  in_change.begin();
  in_change.run_until([&] { return in_change.state().doing == Doing::kChangingPlan; });
  in_change.world.return_node("n1");
  in_change.run_until([&] { return in_change.state().doing == Doing::kMeasuring; });
  in_change.check();
}

TEST_CASE("transcripts of coordinators that end in the middle", "[transcripts]") {
  Story story("coordinator-restarts", fake_job(), plans_of_story());
  story.begin(true);
  story.run_to_phase(Phase::kProfiling);
  restart_coordinator(story, true);
  story.run_to_phase(Phase::kSearching);
  restart_coordinator(story, false);
  story.run_to_phase(Phase::kMeasuring);
  restart_coordinator(story, false);
  story.run_to_trial();
  restart_coordinator(story, true);
  story.run_until([&] { return story.state().has_trial() && story.state().doing == Doing::kChangingPlan; });
  restart_coordinator(story, false);
  story.run_to_phase(Phase::kComparing);
  restart_coordinator(story, true);
  story.run_to_phase(Phase::kUntuned);
  restart_coordinator(story, true);
  story.run_to_end();
  story.check();

  Story asks("coordinator-restarts-asking", fake_job(JobMode::kApprove), two_plans_of_story());
  asks.begin();
  asks.run_until([&] { return asks.state().doing == Doing::kAwaitingApproval; });
  restart_coordinator(asks, true);
  asks.run_rounds(50);
  asks.feed(Order::kApprove);
  asks.run_to_trial();
  asks.check();
}
