#pragma once

// What the tuning machine consists of besides its phases: the state, and the parts that keep something of it. Whoever
// steers ranks (Launch, PlanChanges, Trying, Retuning, Resizing) works on it. Nothing here moves a phase.

#include <set>
#include <string>

#include "tuning/activity.hpp"
#include "tuning/change/checkpoints.hpp"
#include "tuning/change/learning.hpp"
#include "tuning/change/settling.hpp"
#include "tuning/elastic/elastic.hpp"
#include "tuning/hardware/hardware.hpp"
#include "tuning/launch/commands.hpp"
#include "tuning/launch/running_plan.hpp"
#include "tuning/launch/step_assembly.hpp"
#include "tuning/outcome.hpp"
#include "tuning/search/profiling.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/state.hpp"
#include "tuning/trial/overhead.hpp"
#include "tuning/trial/trials.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

struct Machine {
  explicit Machine(TuningState kept);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] Nanoseconds deadline() const { return now.monotonic + state.job.trials.deadline; }
  // The ranks run another plan from here on, or are to.
  void forget_steps(bool of_processes);
  // The next block runs. `changed`: ranks have just begun with its plan. REQUIRES: plans are measured in turn.
  void begin_block(bool changed);
  // The trial ends without its plan being adopted, and with it what was measured. REQUIRES: one goes on.
  void fail_trial(const Reason& reason, const std::string& message, bool blame_candidate);
  // The adopted plan is left for the one before it. False when the incumbent was never adopted: there is none.
  [[nodiscard]] bool give_back_incumbent(const Reason& reason, const std::string& message);
  // The incumbent is the plan that the job began with, or with its present nodes. False when it was already.
  [[nodiscard]] bool return_to_initial();
  // What was measured, and is ready, was of other nodes or other hardware. The plan is the one to begin from.
  void begin_anew(const PlanText& plan, const Predicted& predicted);
  // What is doubtful is measured first, where it can be.
  void request_search();
  // Probes are asked for, where what they find may be acted on. REQUIRES: a drift that nothing was done about.
  void explain_drift();

  TuningState state;  // persisted; what follows is of this process only
  Moment now;
  Outcome out;
  std::set<std::string> lost;  // nodes that are away
  Nanoseconds lost_at{0};      // when the last of them was lost
  KillSwitches thrown;
  CurrentActivity activity{state.doing};
  RunningPlan running{state};
  SearchRequests searches{state.search};
  const View view{state, now, running, lost, thrown};
  Commands commands{state.outstanding, view, out};
  Profiling profiling{state.profiling, view, commands, out};
  Checkpoints checkpoints{state.stops, view, out};
  Learning learning{state.learning, state.spoilt_step, view, out};
  Trials trials{state, view, out};
  Overhead overhead{state.spent, state.trials, view};
  Hardware hardware{state.hardware, view, searches, out};
  Elastic elastic{state.elastic, view, searches, out};
  StepAssembly assembly;
  std::int32_t unexpected_steps = 0;  // in a row, of another plan than the ranks should run
  Settling since_change;              // of the steps since ranks began with the plan that they run, in a block or not
};

}  // namespace trimtab::coordinator
