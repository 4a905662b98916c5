#pragma once

// A restarted job's loss and gradient norm after a change of plan: what spoils them is left for the plan before it, and
// what it has trained is not saved.

#include <cstdint>
#include <string>

#include "tuning/change/learning_watch.hpp"
#include "tuning/change/same_steps.hpp"
#include "tuning/outcome.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Learning {
 public:
  // `watch`: of the job's own steps; `spoilt_step`: TuningState's.
  Learning(LearningWatch& watch, std::int64_t& spoilt_step, const View& view, Outcome& out)
      : watch_(watch), spoilt_step_(spoilt_step), view_(view), out_(out) {}

  // Why the step's plan has to go, for what it told; empty = it need not.
  [[nodiscard]] std::string judge(const JobStep& step);
  // Another trial begins: what its launches tell is compared among them.
  void begin_trial();
  // An adopted plan is watched in the job's own steps before anything else is tried.
  [[nodiscard]] bool watches() const;
  // The plan that is watched has to go. The first step under it.
  [[nodiscard]] std::int64_t stop();
  // It is left, and the steps since then are.
  void leave(std::int64_t since_step) { spoilt_step_ = since_step; }
  // The job runs again. Where it had saved its checkpoint meanwhile, nobody can take back what is in there.
  void run_again();

 private:
  [[nodiscard]] std::string compare(const JobStep& step, const std::string& plan);

  LearningWatch& watch_;
  std::int64_t& spoilt_step_;
  const View& view_;
  Outcome& out_;
  // Of a trial's launch. Each begins at the job's own checkpoint, so that the job's own steps are what it is compared
  // with, and not those of the launch before.
  LearningWatch of_trial_;
  std::uint64_t trial_launch_ = 0;
  SameSteps same_steps_;  // of the trial
};

}  // namespace trimtab::coordinator
