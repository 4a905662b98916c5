// Jobs that are launched anew for another plan, by agents or by a scheduler; and what a plan does to their loss.

#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

bool adopted(const Story& story) {
  return story.state().incumbent.hash == "best" && story.world.running_plan() == "best" &&
         story.world.variant().empty();
}

bool runs_best_in_trial(const Story& story) {
  return story.world.variant() == "trial" && story.world.running_plan() == "best";
}

Job submitted_job() {
  Job job = restarted_job();
  job.submit = {"submit"};
  return job;
}

Job watched_job() {
  Job job = restarted_job();
  job.trials.stop_after = false;
  return job;
}

}  // namespace

TEST_CASE("transcript of a restarted job: one plan rejected, one adopted, compared", "[transcripts]") {
  Story story("restart-adopted", restarted_job(), plans_of_story());
  story.begin();
  story.run_to_end();
  story.check(true);
}

TEST_CASE("transcripts of a restarted trial's launch that crashes, hangs or runs out of memory", "[transcripts]") {
  for (const std::string fault : {"crash", "hang", "out-of-memory"}) {
    Story story("restart-" + fault, restarted_job(), plans_of_story());
    if (fault == "crash") story.world.faults.crash = {"worse"};
    if (fault == "hang") story.world.faults.hang = {"worse"};
    if (fault == "out-of-memory") story.world.faults.out_of_memory = {"worse"};
    story.begin();
    story.run_until([&] { return story.state().has_trial() && story.state().doing == Doing::kKilling; });
    story.skip();
    story.run_until([&] { return story.state().trials_begun() == 2; });
    story.check();
  }
}

TEST_CASE("transcripts of a restarted trial that a freeze or a short absence ends", "[transcripts]") {
  for (const bool freezes : {false, true}) {
    Story story(freezes ? "restart-freeze" : "restart-absence", restarted_job(), two_plans_of_story());
    story.begin();
    story.run_until([&] { return runs_best_in_trial(story); });
    story.skip();
    if (freezes) {
      story.feed(Order::kFreeze);
      story.run_rounds(300);
      story.feed(Order::kUnfreeze);
    } else {
      story.world.lose_node("n1");
      story.world.return_node("n1");
    }
    story.run_to_end_of_trials();
    story.check();
  }
}

TEST_CASE("transcript of a restarted job that its agents have brought back from a trial", "[transcripts]") {
  Story story("restart-brought-back", restarted_job(), two_plans_of_story());
  story.begin();
  story.run_until([&] { return runs_best_in_trial(story); });
  story.skip();
  const std::size_t trained = story.world.own_steps().size();
  for (const char* node : {"n0", "n1"}) story.world.lose_node(node);
  story.world.bring_back();
  story.run_until([&] { return story.world.own_steps().size() >= trained + 50; });
  story.say("another coordinator goes on");
  story.world.restart_coordinator(true);
  story.run_to_end_of_trials();
  story.check();
}

TEST_CASE("transcript of a restarted job that is stopped in a trial, and of one that has no walltime left",
          "[transcripts]") {
  Story stopped("restart-stopped", restarted_job(), two_plans_of_story());
  stopped.begin();
  stopped.run_until([&] { return runs_best_in_trial(stopped); });
  stopped.feed(Order::kStop);
  stopped.run_to_end();
  stopped.check();

  Job job = restarted_job();
  job.walltime = std::chrono::seconds(6);
  Story late("restart-walltime", job, two_plans_of_story());
  late.begin();
  late.run_to_end_of_trials();
  late.check();
}

TEST_CASE("transcripts of a restarted trial whose loss is spoilt", "[transcripts]") {
  for (const bool rises : {false, true}) {
    Story story(rises ? "loss-rises-in-trial" : "loss-not-finite-in-trial", watched_job(), two_plans_of_story());
    if (rises) story.world.faults.loss_factor = {{"best", 100}};
    if (!rises) story.world.faults.not_finite = {"best"};
    story.begin();
    story.run_to_training();
    story.check();
  }
}

TEST_CASE(
    "transcripts of an adopted plan that spoils the loss, also where the job had saved, and of a coordinator's "
    "end while it is watched",
    "[transcripts]") {
  for (const std::string name : {"loss-spoilt", "loss-spoilt-and-saved", "loss-spoilt-restarted"}) {
    Story story(name, watched_job(), two_plans_of_story());
    story.world.faults.saves_by_itself = name == "loss-spoilt-and-saved";
    story.world.faults.not_finite_after = {{"best", 12}};
    story.begin();
    story.run_until([&] { return adopted(story) && story.state().learning.watching(); });
    story.skip();
    if (name == "loss-spoilt-restarted") {
      story.say("another coordinator goes on");
      story.world.restart_coordinator(false);
    }
    story.run_until([&] { return story.state().incumbent.hash == "initial"; });
    story.run_to_training();
    story.run_steps(30);
    story.check();
  }
}

TEST_CASE("transcripts of launches in a scheduler's hands", "[transcripts]") {
  Story queued("submitted", submitted_job(), two_plans_of_story());
  queued.world.faults.queue_time = std::chrono::seconds(60);
  queued.begin();
  queued.run_to_end();
  queued.check();

  for (const auto state : {SubmissionState::kPreempted, SubmissionState::kNotStarted, SubmissionState::kOutOfMemory}) {
    Story story("submitted-trial-" + std::string(to_string(state)), submitted_job(), two_plans_of_story());
    story.begin();
    story.run_until([&] { return runs_best_in_trial(story); });
    story.world.faults.interrupt[story.world.launches()] = state;
    story.run_until([&] { return story.state().trials.front().state == TrialState::kFailed; });
    story.run_until([&] { return story.world.variant().empty() && !story.world.running_plan().empty(); });
    story.check();
  }

  Story job("submitted-interrupted", submitted_job(), two_plans_of_story());
  for (int i = 1; i <= 6; ++i) {
    job.world.faults.interrupt[i] = i % 2 == 0 ? SubmissionState::kPreempted : SubmissionState::kWalltime;
  }
  job.begin();
  job.run_until([&] { return job.world.faults.interrupt.empty() && job.state().step > 30; });
  job.check();
}
