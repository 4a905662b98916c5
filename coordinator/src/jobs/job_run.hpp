#pragma once

// One submitted job: drives its tuning machine. An event goes in; the machine's transition is stored in one
// transaction; only then its actions are carried out. When the disk does not take the transition, actions and events
// wait, in bounded memory, and each tick tries again. Once the job is over and nothing of it waits, it is shelved: its
// documents are in the database alone. Event loop's thread only.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "costs/cost_intake.hpp"
#include "jobs/event_queue.hpp"
#include "jobs/job_card.hpp"
#include "jobs/job_facts.hpp"
#include "jobs/measured_timelines.hpp"
#include "jobs/near_hardware.hpp"
#include "net/metric_text.hpp"
#include "state_store.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

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
  // A batch of this job's costs that a node has measured has been stored under this fingerprint.
  void costs_stored(const std::string& node, const std::string& fingerprint, bool active);
  // What such a batch consisted of: whether others used the job's machines is what its trials have taught of them.
  void values_stored(const MeasuredValues& values);

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
  // What plans can be priced with. Empty when the database cannot be read.
  [[nodiscard]] std::vector<Cost> known_costs() const;

 private:
  void take(std::vector<Action> actions);
  void audit(const std::vector<Action>& actions);
  void drain(bool at_once = false);
  [[nodiscard]] bool store();
  [[nodiscard]] bool is_outstanding(const std::string& tag) const;
  [[nodiscard]] bool may_be_shelved() const;
  void place();
  // What it asks for, with so many nodes, and the site does not allow.
  [[nodiscard]] std::string beyond_site(std::size_t nodes) const;
  void keep_card();
  void hold_devices();
  void load_facts(const std::string& hardware);
  [[nodiscard]] std::vector<Cost> costs_of(const std::string& fingerprint) const;
  [[nodiscard]] std::optional<Fingerprint> own_fingerprint(const Cluster& cluster) const;
  [[nodiscard]] std::optional<NearCosts> near_costs(const Model& model, const Cluster& cluster, bool launches) const;
  [[nodiscard]] bool asks_for_launches(const Cluster& cluster) const;
  void remember_costs();
  [[nodiscard]] std::set<std::string> other_fingerprints(const Cluster& cluster) const;
  [[nodiscard]] std::string costs_hardware(const Cluster& cluster) const;
  [[nodiscard]] const PlanText* drawn_plan(const std::string& hash) const;
  void price_plans();
  void priced(const SearchReply& reply);
  [[nodiscard]] Moment now() const { return {services_.clock.monotonic(), services_.clock.wall()}; }

  // Of what goes to agents: a command, which has an id and an answer, or a message.
  template <typename ToAgents>
  void carry_out(const ToAgents& action);
  template <typename Command>
  void send_command(const Command& action);
  void carry_out(const CountCosts& action);
  void carry_out(const SearchPlans& action);
  void carry_out(const ProbeHardware& action);
  void carry_out(const ListDoubtful& action);
  void carry_out(const RememberCalibration& action);
  void carry_out(const RememberProbes& action) { facts_.remember_probes(action.json); }
  void carry_out(const RememberFailure& action) { facts_.remember_failure(action.plan_hash, action.reason.text()); }
  template <typename Command>
  void number_later(const Command& command, const std::string& why);
  void number_late();
  // In job_run_sending.cpp: what of it goes to a node now.
  [[nodiscard]] std::size_t largest_message() const;
  [[nodiscard]] bool has_room(const std::string& node, std::size_t bytes) const;
  struct Unsent {
    Action action;
    std::string tag;
    std::string node;
    std::size_t bytes = 0;  // of its message
  };
  void send_or_keep(Unsent command, const wire::ToAgent& to);
  [[nodiscard]] bool tell(const std::string& node, const wire::ToAgent& to) const;
  void send_late();
  void tick_probing();
  void offer_nodes();
  void offer(const LargerPlacement& larger, const HardwareProbed& probed);
  [[nodiscard]] std::optional<std::string> meeting_place(const std::string& name) const;

  struct Probing {
    ProbeHardware asked;
    Nanoseconds deadline{0};
    std::optional<HardwareProbed> answer;  // of the agents
  };

  const std::int64_t run_;
  const JobNeeds& services_;
  Tuning tuning_;
  JobFacts facts_;
  std::string timelines_json_;
  MeasuredTimelines measured_;
  JobCard card_;
  MeasuredValues values_;  // since this process has known the job
  EventQueue events_;
  std::vector<Action> meeting_later_;   // launches and benchmarks, until the node of rank 0 is known
  std::string unnumbered_;              // the last of them that was told of
  std::vector<Action> numbered_later_;  // commands, until the disk has room for their ids
  std::vector<Unsent> unsent_;          // commands, until less waits for their nodes
  std::deque<Action> actions_;
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
  std::int32_t told_near_ = 0;    // costs taken over, as the database was told
  bool benchmark_told_ = false;   // some costs of this run's profiling have come
  std::int32_t told_untold_ = 0;  // launches that the benchmark did not tell, as it was told
  std::uint64_t held_bytes_ = 0;
  std::shared_ptr<JobRun*> self_;  // what callbacks of the search worker hold; emptied at destruction
};

}  // namespace trimtab::coordinator
