#pragma once

// A job in the fake world of which a transcript is kept.

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../fake_world.hpp"
#include "golden_file.hpp"
#include "transcript.hpp"

namespace trimtab::coordinator {

class Story {
 public:
  Story(std::string name, Job job, std::vector<FakePlan> plans, std::uint64_t seed = 7, double noise = 0.02)
      : world(std::move(job), std::move(plans), seed, noise), name_(std::move(name)) {
    world.on_handled = [this](const Handled& handled) { transcript_.add(handled, world.tuning()); };
  }
  Story(const Story&) = delete;
  Story& operator=(const Story&) = delete;

  FakeWorld world;

  // Its transcript begins with the ranks' first step, unless the way there is wanted, too.
  void begin(bool from_the_begin = false) {
    world.begin();
    if (from_the_begin) return;
    run_until([this] { return state().phase == Phase::kMeasuring; });
    skip();
  }
  // What was up to here is in a digest: other stories tell it.
  void skip() { transcript_.fold(state()); }
  void say(const std::string& line) { transcript_.say(line); }
  void feed(const Event& event) { world.feed(event); }
  // Until that is so.
  void run_until(const std::function<bool()>& stop) {
    const bool reached = world.run(stop, kLimit) && stop();
    INFO(name_ << "\n" << world.history());
    REQUIRE(reached);
  }
  void run_to_end() {
    run_until([this] { return is_final(state().phase); });
  }
  void run_steps(std::int64_t steps) {
    const std::int64_t end = state().step + steps;
    run_until([&] { return state().step >= end; });
  }
  void run_rounds(int rounds) {
    (void)world.run([] { return false; }, rounds);
  }
  void run_to_trial(TrialState trial = TrialState::kMeasuring) {
    run_until([&] { return state().has_trial() && state().trials.back().state == trial; });
  }
  void run_to_phase(Phase phase) {
    run_until([&] { return state().phase == phase; });
  }
  void run_to_training() {
    run_until([this] { return state().phase == Phase::kTraining && state().doing == Doing::kNothing; });
  }
  // All trials are over.
  void run_to_end_of_trials() {
    run_until([this] { return !state().conclusion.empty() || is_final(state().phase); });
  }
  void check(bool with_state = false) {
    keep_whole("transcripts/" + name_, transcript_.whole());
    check_golden("transcripts/" + name_, transcript_.end(state(), with_state));
  }

  [[nodiscard]] const TuningState& state() const { return world.state(); }

 private:
  static constexpr int kLimit = 100'000;

  std::string name_;
  Transcript transcript_;
};

// Three plans of which the one that the model believes in is not the best.
[[nodiscard]] inline std::vector<FakePlan> plans_of_story() {
  return {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}};
}
[[nodiscard]] inline std::vector<FakePlan> two_plans_of_story() {
  return {{"initial", 100, 110}, {"best", 70, 80}};
}

// It trains on after its tuning.
[[nodiscard]] inline Job training_job(std::int64_t steps, JobMode mode = JobMode::kAuto) {
  Job job = fake_job(mode);
  job.trials.stop_after = false;
  job.steps = steps;
  return job;
}

// It is launched anew to change its plan.
[[nodiscard]] inline Job restarted_job(std::int64_t steps = 4000) {
  Job job = fake_job();
  job.delivery = Delivery::kRestart;
  job.checkpoint = "/checkpoints";
  job.train = {"train", "{checkpoint}"};
  job.steps = steps;
  return job;
}

}  // namespace trimtab::coordinator
