#pragma once

// A simulated cluster and job around one tuning machine: two nodes with a rank each, plans with a hidden true step
// time, and faults to order. Messages and steps take manual time; a seed decides the noise.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../simulated_rank.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "transcripts/handled.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

struct FakePlan {
  std::string name;  // text and hash in one
  double true_ms = 100;
  double predicted_ms = 100;
  std::string layout = {};  // equal for plans that differ in recompute alone; empty = its own
};

struct Faults {
  std::set<std::string> refuse;  // plans that rank 1 refuses
  std::set<std::string> refuse_memory;
  std::set<std::string> fail_memory;       // plan_failed(out_of_memory) instead of active; ranks stay on the old plan
  std::set<std::string> crash;             // rank 1 exits at the change
  std::set<std::string> out_of_memory;     // rank 1 says so in the first step of a trial's launch, and exits
  std::set<std::string> hang;              // ranks fall silent at the change
  std::set<std::string> no_ack;            // rank 1 never acknowledges
  std::set<std::string> late_ack;          // rank 1 acknowledges after the deadline
  std::set<std::string> half_active;       // only rank 0 becomes active
  std::set<std::string> ignore_commit;     // the commit takes no effect
  std::set<std::string> ignore_cancel;     // … and then, after its cancellation, does
  std::int64_t crash_at_step = -1;         // whatever runs, once
  std::map<std::string, int> crash_after;  // so many steps of it in a launch of the job itself
  int snapshot_every = 0;                  // steps; 0 = at changes of plan alone
  bool crash_always = false;
  bool launch_fails = false;
  bool ranks_never_meet = false;                // each launch's ranks look for each other for ten seconds, and end
  std::map<std::string, double> loss_factor;    // what its steps' loss is of others'
  std::set<std::string> not_finite;             // its loss is no number
  std::map<std::string, int> not_finite_after;  // so, after so many steps of a launch of the job itself
  bool saves_by_itself = false;                 // the job, its checkpoint after each step
  bool saves_at_stop = true;                    // a restarted job, when it is asked to end
  bool resumes = true;                          // … from its checkpoint; else it begins at its first step
  int saves_every = 0;                          // steps; agents tell of it,
  int saves_noticed = 0;                        // … that it is written, so many steps after it was
  int saves_settle = 0;                         // … that it is whole, so many steps later
  std::string restless;                         // … that none is whole, for this file does not rest
  std::optional<CopyPrice> copy;                // … and what copying it takes on the node of rank 1
  double slowdown = 1;                          // of every step
  // So many steps after a change of plan take three times as long, as ranks tell (or do not).
  int preparing_steps = 0;
  bool preparations_told = true;
  double warmup = 0;                           // of a plan's first step after a change beyond 1; then 0.3 of it, …
  std::map<std::string, double> clock;         // what ranks' clocks show of a second, by plan
  std::map<std::int64_t, Nanoseconds> pauses;  // after this step, once: an evaluation
  std::vector<Probe> probes;                   // what agents tell of the hardware; none = they have nothing to tell
  std::vector<LinkFault> links;                // … and of links, beside probes
  bool probes_unanswered = false;
  Doubtful doubtful;                   // what changes have made so; no costs: nothing
  std::set<std::int32_t> no_measures;  // ranks whose program cannot measure between its steps
  std::set<std::int32_t> unasked;      // … that do not hear that they are to
  double measured_times = 1;           // as long as expected; a device's own items on other ranks take what they took
  bool benchmarks_take_long = false;   // until they are killed
  // Where the job is submitted to a scheduler: how long its launches wait there, and what befalls the n-th of them at
  // its third step.
  Nanoseconds queue_time{0};
  std::map<int, SubmissionState> interrupt;
};

class FakeWorld {
 public:
  FakeWorld(Job job, std::vector<FakePlan> plans, std::uint64_t seed, double noise);

  Faults faults;
  std::vector<ProposePlan> proposals;
  std::vector<KillOn> kills;  // that arrived
  std::vector<ProbeHardware> looks;
  std::vector<MeasuredStep> steps;
  std::vector<Decision> decisions;
  ManualClock clock;
  // Of a job with knobs of its own alone, whose plans are those that are searched: a step's time under such settings.
  std::function<double(const OwnSettings&)> own_ms;
  // Called after each handled event, its actions not yet carried out.
  std::function<void()> after_event;
  // Called with all that the machine gave, before anything of it is carried out.
  std::function<void(const Handled&)> on_handled;

  void begin();
  // Nothing is known of how the job saves. Before begin().
  void forget_stops();
  void allow_restarts(bool allowed);
  // What an earlier job has left.
  void set_probes(std::vector<Probe> probes) { tuning_->set_probes(std::move(probes)); }
  // Until `stop` or a final phase; false when neither comes within `limit` rounds.
  bool run(
      const std::function<bool()>& stop = [] { return false; }, int limit = 20000);
  void feed(const Event& event);
  // The coordinator dies (before or after the last actions were carried out) and another goes on.
  void restart_coordinator(bool lose_actions);
  void set_true_ms(const std::string& plan, double ms);
  void lose_node(const std::string& node);
  void return_node(const std::string& node);
  // What agents do where their kill switches are thrown in a trial and no coordinator is there: the job itself runs.
  void bring_back();

  [[nodiscard]] const Tuning& tuning() const { return *tuning_; }
  [[nodiscard]] const TuningState& state() const { return tuning_->state(); }
  // What the next search would be asked.
  [[nodiscard]] SearchTask search_task() const { return tuning_->search_task(); }
  [[nodiscard]] std::string running_plan() const;  // empty unless every rank runs the same
  [[nodiscard]] int transitions() const { return transitions_; }
  [[nodiscard]] std::string history() const;
  [[nodiscard]] int launches() const { return launches_; }
  // Steps that the job itself trained, in order; those of trials' and untuned launches are not its own.
  [[nodiscard]] const std::vector<std::int64_t>& own_steps() const { return own_steps_; }
  [[nodiscard]] const std::string& variant() const { return variant_; }
  // Steps before which ranks have measured again.
  [[nodiscard]] const std::vector<std::int64_t>& pauses() const { return pauses_; }

 private:
  struct Rank {
    bool alive = false;
    trimtab::test::SimulatedRank runs;
    std::map<std::uint64_t, std::int64_t> ignored = {};  // commits, by epoch
  };
  [[nodiscard]] Moment now() const { return {clock.monotonic(), clock.wall()}; }
  void take(Handled handled);
  void carry_out(const Action& action);
  void finish_command(const std::string& tag, bool ok = true, const std::string& output = "");
  void launch(const LaunchOn& launch);
  void propose(std::int32_t rank, const ProposePlan& plan);
  void commit(Rank& rank, const CommitPlan& commit);
  void cancel(Rank& rank, const CancelPlan& cancel);
  void ask(const MeasureAgain& wanted);
  void measure_again();
  [[nodiscard]] RankMeasured measured(std::int32_t rank) const;
  void search(const SearchPlans& wanted);
  void train_step();
  void tell_of_save();
  bool change_plan();
  [[nodiscard]] double warm_up();
  [[nodiscard]] RankStep learnt(const std::string& plan) const;
  void tell(std::int32_t rank, const RankNews& news);
  void end_ranks(int exit_code);
  bool waits_in_queue();
  bool greets();
  bool interrupt_launch();
  [[nodiscard]] bool is_submitted() const { return !state().job.submit.empty(); }
  [[nodiscard]] FakePlan plan(const std::string& name) const;
  [[nodiscard]] bool restarts() const { return state().job.delivery == Delivery::kRestart; }
  [[nodiscard]] bool reachable(std::int32_t rank) const { return !away_.contains("n" + std::to_string(rank)); }

  std::vector<FakePlan> plans_;
  Random random_;
  double noise_;
  std::unique_ptr<Tuning> tuning_;
  std::deque<Action> pending_;
  std::deque<Event> events_;
  TuningState saved_;
  std::vector<std::string> notes_;
  int transitions_ = 0;
  int launches_ = 0;

  std::vector<Rank> ranks_;
  std::uint64_t launch_ = 0;
  std::set<std::string> done_tags_;
  std::set<std::string> away_;
  std::string variant_;
  std::vector<std::int64_t> own_steps_;
  std::int64_t step_ = 0;
  std::int64_t snapshot_ = 0;
  std::vector<std::int64_t> pauses_;
  int plan_steps_ = 0;  // since the change to it
  std::int64_t preparations_ = 0;
  std::map<std::string, int> launch_steps_;  // of this launch, by plan
  std::int64_t last_step_ = 0;
  bool greeted_ = true;
  trimtab::test::SimulatedRank own_launch_;  // of the job's own latest launch
  std::int64_t stop_at_ = -1;
  bool silent_ = false;
  Nanoseconds queued_until_{0};
  Nanoseconds paused_until_{0};
  int steps_of_launch_ = 0;
};

// Two ranks, 600 steps, everything else as the defaults are.
[[nodiscard]] Job fake_job(JobMode mode = JobMode::kAuto);
// The model believes that "worse" is best and that "best" is second; "slow" is hopeless and looks so.
[[nodiscard]] std::vector<FakePlan> three_plans();

}  // namespace trimtab::coordinator
