#pragma once

// The loop for one job, as a pure state machine: measure, remember, predict, trial, correct, again. Events with their
// moments go in, actions come out; no sockets, files, clocks or threads.
//
// Who drives it: feed an event; when take_transition() is true, persist state() (with take_notes() and take_steps()) in
// one transaction; only then carry the actions out. A machine that is built from a persisted state and resume()d goes
// on: the interrupted trial has failed ("coordinator restarted"), ranks are brought back to the incumbent, tuning
// continues.
//
// It alone moves phases. Each concern has a part, which owns what it keeps, reads the rest through a View and tells
// what it wants in an Outcome. Single-threaded. Sources: tuning.cpp (dispatch), ending.cpp, authority.cpp,
// invariants.cpp, search/preparation.cpp (nodes, model, costs, first search), search/trying.cpp (the next trial),
// launch/ranks.cpp (launch, kill, crash, hang, nodes), launch/submission.cpp (launches in a scheduler's hands),
// change/plan_change.cpp (live changes), change/restarting.cpp (changes by a new launch), trial/measuring.cpp,
// trial/trial.cpp, hardware/retuning.cpp, hardware/measuring_anew.cpp (a node that came back as another),
// elastic/resizing.cpp.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tuning/change/agreement.hpp"
#include "tuning/change/learning.hpp"
#include "tuning/change/restart.hpp"
#include "tuning/change/settling.hpp"
#include "tuning/elastic/elastic.hpp"
#include "tuning/event.hpp"
#include "tuning/hardware/hardware.hpp"
#include "tuning/launch/commands.hpp"
#include "tuning/launch/running_plan.hpp"
#include "tuning/launch/step_assembly.hpp"
#include "tuning/outcome.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/state.hpp"
#include "tuning/trial/clock_check.hpp"
#include "tuning/trial/interleaving.hpp"
#include "tuning/trial/overhead.hpp"
#include "tuning/trial/trials.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Tuning {
 public:
  explicit Tuning(TuningState state);
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // A new job.
  [[nodiscard]] std::vector<Action> begin(Moment now);
  // A job that an earlier coordinator left. Its nodes count as lost until each comes back.
  [[nodiscard]] std::vector<Action> resume(Moment now);
  [[nodiscard]] std::vector<Action> handle(const Event& event, Moment now);

  [[nodiscard]] const TuningState& state() const { return state_; }
  [[nodiscard]] Progress progress() const;
  // REQUIRES: a SearchPlans action was the last of its kind. Costs and budgets are the caller's to fill in.
  [[nodiscard]] SearchTask search_task() const;
  [[nodiscard]] SearchTask task_for(SearchFor purpose) const;
  // Whether nodes may be offered now (NodesOffered): the job has fewer devices than it asked for, and is calm.
  [[nodiscard]] bool takes_nodes() const;
  // The fingerprint under which this job's benchmarks really store their costs.
  void set_fingerprint(const std::string& hash) { state_.fingerprint = hash; }
  // The hardware as it was when the costs were measured. Call before NodesReady.
  void set_probes(std::vector<Probe> probes) {
    state_.hardware.first_probes = state_.hardware.last_probes = std::move(probes);
  }
  // What earlier jobs learnt on this hardware: those of this name, else the latest of any. Call before NodesReady, and
  // again once benchmarks have told whose costs the job's are, before the first search.
  void set_calibration(const std::string& json) { state_.calibration_json = state_.earlier_calibration_json = json; }

  [[nodiscard]] bool take_transition();
  [[nodiscard]] std::vector<Note> take_notes();
  [[nodiscard]] std::vector<MeasuredStep> take_steps();
  // Trials besides the latest whose rows in the database are not right any more.
  [[nodiscard]] std::vector<Trial> take_changed_trials();
  [[nodiscard]] std::vector<Decision> take_decisions();

  // Why the ranks stay on the incumbent, whatever is found: frozen, or a node's kill switch. Empty = they need not.
  [[nodiscard]] std::string held_by() const { return view_.held_by(); }
  [[nodiscard]] const std::set<std::string>& kill_switches() const { return kill_switches_; }

 private:
  enum class ChangePurpose { kBlock, kRollback };
  struct PlanChange {
    Agreement agreement;
    PlanText plan;
    ChangePurpose purpose;
  };

  // tuning.cpp
  void on(const Tick&);
  void on(const CommandFinished&);
  void on(const CommandMoved&);
  void on(const SearchFinished&);
  void on(const FromRank&);
  void on(const KillSwitches&);
  void on(Order);
  void hold(const Reason& reason);
  void release();
  void enter(Phase phase);
  [[nodiscard]] Nanoseconds deadline() const { return now_.monotonic + state_.job.trials.deadline; }

  // What is left to be carried out after an event.
  [[nodiscard]] std::vector<Action> acted();

  // invariants.cpp
  void check_invariants() const;

  // search/preparation.cpp
  void on(const NodesReady&);
  void on(const CostsCounted&);
  void describe();
  void described(const CommandFinished&);
  void profile();
  void next_benchmark();
  void benchmarked(const CommandFinished&);
  void profiled();
  void cannot_profile(const std::string& why);
  void tick_profiling();
  void first_search_finished(const SearchReply&);
  void request_search();

  // launch/ranks.cpp
  void on(const NodeLost&);
  void on(const NodeBack&);
  void launch_ranks(const PlanText& plan, const std::string& variant, bool fresh, std::int64_t steps);
  void kill_ranks(AfterKill after, KillReach reach = KillReach::kLaunch);
  void kill_reachable(AfterKill after, KillReach reach = KillReach::kLaunch);
  void launch_incumbent();
  void ranks_killed();
  void launched(const CommandFinished&);
  void relaunch(const Reason& reason, const std::string& why);
  void launch_until_it_begins(const Reason& reason, const std::string& why);
  void give_up_incumbent(const Reason& reason, const std::string& why);
  void launch_again(const std::string& why);
  void halt();
  void resume_halted();
  void recovered();
  void news(std::int32_t rank, const RankConnected&);
  void news(std::int32_t rank, const RankStep&);
  void news(std::int32_t rank, const RankPasses&);
  void news(std::int32_t rank, const RankExited&);
  void news(std::int32_t, const RankSaidBye&);
  void all_ranks_ended();
  void crashed(const Reason& reason, const std::string& why);
  void tick_ranks();
  void silent();
  void check_ranks(const NodeBack&);

  // launch/submission.cpp
  void news(std::int32_t rank, const RankSubmission& submission);
  void submission_moved(const RankSubmission& submission);
  void rank_of_submission_ended(std::int32_t rank, const RankExited& exited);
  void interrupted(const RankSubmission& submission);

  // change/plan_change.cpp
  void begin_change(const PlanText& plan, ChangePurpose purpose);
  void change_done();
  void change_failed(const Reason& reason, const std::string& message);
  void cancel_change();
  void resend_change();
  void tick_change();
  [[nodiscard]] bool give_back_incumbent(const Reason& reason, const std::string& message);
  void roll_back();
  void settled();
  void news(std::int32_t rank, const RankAcknowledged&);
  void news(std::int32_t rank, const RankRefused&);
  void news(std::int32_t rank, const RankActive&);
  void news(std::int32_t rank, const RankFailed&);

  // change/restarting.cpp
  void begin_restart(const PlanText& plan, ChangePurpose purpose);
  void launch_restart();
  void restarted();
  void trial_launch_failed(const Reason& reason, const std::string& why);
  [[nodiscard]] bool spoils(const JobStep& step);

  // trial/measuring.cpp
  void on_step(const JobStep& step);
  void take_step(const JobStep& step);
  void unexpected_plan();
  [[nodiscard]] const PlanText& expected_plan() const;
  void begin_measuring();
  void begin_block(bool changed);
  void measured_initial();
  void measure_step(const JobStep& step);
  void leave_out(const JobStep& step);
  void unbelievable(const Reason& reason, const std::string& message);
  void tick_measuring();
  void record_step(const JobStep& step, bool warmup);
  void continue_interleaving();
  void next_block();
  void begin_comparison();
  void conclude_comparison();
  void give_up_comparison();
  void leave_adopted(const Measured& other, const Ratio& ratio);
  void stop_for_overhead();

  // trial/trial.cpp
  void begin_trial(const Candidate& candidate);
  void start_trial();
  void judge_race();
  void conclude_trial(const Race& race, const Reason& reason);
  void fail_trial(const Reason& reason, const std::string& message, bool blame_candidate);
  void withdraw_question(const std::string& why);
  void go_on_trying();

  // search/trying.cpp
  void decide(const SearchReply& reply);
  void pass_over(const PassedOver& copy);
  void take_search(const SearchReply& reply);
  void recommend(const Candidate* best);

  // hardware/retuning.cpp
  void watch_for_drift(const JobStep& step);
  void train_on();
  void explain_drift();
  void drift_explained(bool tune_again);
  void retune();
  void first_look_over();
  void on(const HardwareProbed& probed);
  void search_around_slower();

  // elastic/resizing.cpp
  void prepare_spare();
  void tick_lost();
  void shrink();
  void on(const NodesOffered& offered);
  void grow(const Candidate& best);
  void begin_anew(const PlanText& plan, const Predicted& predicted);
  [[nodiscard]] bool settle_growth();
  void go_back(const std::string& why);

  // hardware/measuring_anew.cpp
  void compare_hardware(const NodeBack& back);
  void measure_anew();
  [[nodiscard]] bool profiles_first() const;
  void profile_anew();
  void profiled_anew();
  void leave_profiling_anew();

  // ending.cpp
  void finish_trials(const std::string& why, bool searched = true);
  void end_tuning();
  void stop_ranks();
  void begin_untuned();
  void untuned_run_failed(const std::string& why);
  void finish();
  void fail(const std::string& why);
  void stopped();
  void user_stop();
  void end_preparation(AfterKill after);
  [[nodiscard]] bool end_without_lost();

  // Persisted.
  TuningState state_;

  // Of this process only.
  Moment now_;
  Outcome out_;
  std::set<std::string> lost_;
  std::set<std::string> kill_switches_;  // of the cluster
  RunningPlan running_{state_};
  SearchRequests searches_{state_.search};
  const View view_{state_, now_, running_, searches_, lost_, kill_switches_};
  Commands commands_{state_.outstanding, view_, out_};
  Profiling profiling_{state_.profiling, view_, out_};
  Learning learning_{state_.learning, state_.spoilt_step, view_, out_};
  Trials trials_{state_, view_, out_};
  Overhead overhead_{state_.spent, state_.trials, view_};
  Hardware hardware_{state_.hardware, view_, out_};
  Elastic elastic_{state_.elastic, view_, out_};
  std::vector<MeasuredStep> steps_;
  Nanoseconds moved_at_{0};  // when ranks last gave a sign of life
  std::optional<PlanChange> change_;
  std::optional<Restart> restart_;  // delivery "restart": the launch that is under way
  std::optional<Interleaving> interleaving_;
  ClockCheck clock_check_;
  Nanoseconds measured_at_{0};  // when a whole step of the running block came, or the block began
  StepAssembly assembly_;
  Settling since_change_;  // of the steps since ranks began with the plan that they run, in a block or not
  std::int32_t rollbacks_ = 0;
  std::int32_t unexpected_steps_ = 0;
  std::int32_t left_out_ = 0;     // steps of the running block that cannot be
  Nanoseconds silence_told_{-1};  // since when ranks were silent when people were last told
  Nanoseconds lost_at_{0};        // when the last of them was lost
  Nanoseconds launched_at_{0};
  std::uint64_t launch_seen_ = 0;  // the latest that an agent has had
  std::set<std::int32_t> ended_;
  std::string first_end_;        // of a submitted launch's ranks, in words
  std::string submission_told_;  // what people were last told of how the launch fares
};

}  // namespace trimtab::coordinator
