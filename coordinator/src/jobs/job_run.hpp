#pragma once

// One submitted job: drives its tuning machine. An event goes in; the machine's transition is stored in one
// transaction; only then its actions are carried out. When the disk does not take the transition, actions and events
// wait, in bounded memory, and each tick tries again. Once the job is over and nothing of it waits, it is shelved: its
// documents are in the database alone. Event loop's thread only.

#include <deque>
#include <memory>

#include "costs/cost_intake.hpp"
#include "jobs/event_queue.hpp"
#include "jobs/job_card.hpp"
#include "jobs/job_costs.hpp"
#include "jobs/measured_timelines.hpp"
#include "jobs/node_commands.hpp"
#include "state_store.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

// What a scheduler starts has the scheduler's devices, and what its user launched the user's.
[[nodiscard]] bool has_own_devices(const TuningState& state);

class JobRun {
 public:
  JobRun(std::int64_t run, TuningState state, StoredDocuments documents, const JobNeeds& services);
  ~JobRun();
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;

  void begin();
  void resume();
  void feed(Event event);
  // A person's order, which is in the audit log before anything is done about it: while the disk takes neither, both
  // wait. The error: too many wait already, and this one is forgotten.
  [[nodiscard]] Status obey(Order order, AuditEntry entry);
  // Also tries again what could not be stored, and asks for nodes while the job waits for them.
  void tick();
  // Thrown kill switches, and what the site forbids: told to the machine where they have changed.
  void follow_holds();
  // A batch of this job's costs that a node has measured. Whether others used the job's machines meanwhile says what
  // its trials have taught of them.
  void stored(const BatchAnswer& batch);

  // Over, and its documents are in the database alone: the state has what lists and metrics tell of it.
  [[nodiscard]] bool is_shelved() const { return shelved_; }
  // What tuning has gained, also of a job whose trials are in the database alone.
  [[nodiscard]] std::optional<ToldGain> gain() const { return shelved_ ? shelved_gain_ : told_gain(state()); }
  // REQUIRES: it is over, and all of it is stored.
  void shelve();
  // Of the coordinator's memory, by held_memory.hpp.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }

  // What the job's card is made of, and the card.
  [[nodiscard]] JobCard& card() { return card_; }
  [[nodiscard]] const JobCard& card() const { return card_; }

  // A rank's picture of one of its steps.
  [[nodiscard]] Status pictured(std::int32_t rank, std::uint64_t epoch, std::uint64_t begin_ns,
                                const std::string& bars_json);
  [[nodiscard]] std::size_t pictures() const { return measured_.pictures(); }

  [[nodiscard]] std::int64_t run() const { return run_; }
  [[nodiscard]] const std::string& name() const { return tuning_.state().job.name; }
  [[nodiscard]] const TuningState& state() const { return tuning_.state(); }
  [[nodiscard]] const Tuning& tuning() const { return tuning_; }
  // What keeps it waiting though devices are there; empty = nothing.
  [[nodiscard]] const std::string& waits_for() const { return waits_for_; }
  [[nodiscard]] bool active() const { return !is_final(tuning_.state().phase); }
  [[nodiscard]] const std::string& timelines_json() const { return timelines_json_; }
  // False while the report's timelines are still being made.
  [[nodiscard]] bool report_complete() const { return reported_ || state().initial.empty(); }
  // How long the job's steps took, since this coordinator knows it.
  [[nodiscard]] const net::Histogram& step_times() const { return step_times_; }
  [[nodiscard]] const std::string& storage_failure() const { return storage_failure_; }
  [[nodiscard]] const JobCosts& costs() const { return costs_; }

 private:
  void take(Outcome told);
  void audit(const Outcome& told);
  void drain(bool at_once = false);  // at once: an order among the events
  [[nodiscard]] bool store();
  void number_commands();
  [[nodiscard]] bool may_be_shelved() const;
  void place();
  // What it asks for, with so many nodes, and the site does not allow.
  [[nodiscard]] std::string beyond_site(std::size_t nodes) const;
  void keep_card();
  void hold_devices();
  // Of ranks that are being ended.
  [[nodiscard]] bool has_ended_on(const std::string& node) const;
  void price_plans();
  void priced(const SearchReply& reply);
  [[nodiscard]] Moment now() const { return {services_.clock.monotonic(), services_.clock.wall()}; }

  // Of what does not go to agents.
  void carry_out(const CountCosts&) { (void)events_.push(costs_.count()); }
  void carry_out(const SearchPlans& action);
  void carry_out(const ProbeHardware& action);
  void carry_out(const ListDoubtful& action);
  void carry_out(const RememberCalibration& action);
  void carry_out(const RememberProbes& action) { facts_.remember_probes(action.json); }
  void carry_out(const RememberFailure& action) { facts_.remember_failure(action.plan_hash, action.reason.text()); }
  void tick_probing();
  void offer_nodes();
  void offer(const LargerPlacement& larger, const HardwareProbed& probed);

  struct Probing {
    ProbeHardware asked;
    Nanoseconds deadline{0};
    std::optional<HardwareProbed> answer;  // of the agents
  };

  const std::int64_t run_;
  const JobNeeds& services_;
  Tuning tuning_;
  JobFacts facts_;
  JobCosts costs_;
  NodeCommands commands_;
  std::string timelines_json_;
  MeasuredTimelines measured_;
  JobCard card_;
  MeasuredValues values_;  // since this process has known the job
  EventQueue events_;
  std::deque<Action> actions_;
  std::vector<CommandOwner> unnumbered_;  // commands among them, which have no id yet
  Transition unstored_;
  std::string storage_failure_;
  std::string waits_for_;
  std::optional<Probing> probing_;
  std::string offered_;    // nodes beyond the job's that were looked at last (LargerPlacement::key)
  bool offering_ = false;  // their devices are being probed
  bool draining_ = false;
  bool shelved_ = false;
  std::optional<ToldGain> shelved_gain_;
  net::Histogram step_times_{net::kSecondBounds};
  std::int64_t timed_step_ = 0;  // the last of those
  std::string priced_;           // the incumbent that timelines were made of last, or are being made of
  bool reported_ = false;
  std::uint64_t held_bytes_ = 0;
  std::shared_ptr<JobRun*> self_;  // what callbacks of the search worker hold; emptied at destruction
};

}  // namespace trimtab::coordinator
