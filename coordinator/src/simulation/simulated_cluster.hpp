#pragma once

// The executor behind a simulated job: carries out the tuning machine's actions in virtual time and says what happens,
// as agents and ranks would. One job, one plan on all ranks at a time. Not thread-safe.

#include <deque>
#include <set>

#include "simulation/ground_truth.hpp"
#include "tuning/action.hpp"
#include "tuning/elastic/joining_nodes.hpp"

namespace trimtab::coordinator {

// The nodes of a simulated cluster: those that the job's ranks are on, those that are away, and those that are there
// beside it.
class SimulatedNodes {
 public:
  // The job begins on all of them.
  explicit SimulatedNodes(const Cluster& cluster);

  // The nodes of the job's ranks, and their links.
  [[nodiscard]] const Cluster& job() const { return job_; }
  [[nodiscard]] std::vector<NodeShare> shares() const;
  [[nodiscard]] bool is_known(const std::string& node) const { return known_.contains(node); }
  [[nodiscard]] bool has_ranks(const std::string& node) const;
  [[nodiscard]] bool is_away(const std::string& node) const { return away_.contains(node); }
  // What its agent says of it.
  [[nodiscard]] NodeBack introduction(const std::string& node) const;

  void leave(const std::string& node, Nanoseconds until) { away_[node] = until; }
  // Those whose time has come: they are there again.
  [[nodiscard]] std::vector<std::string> take_returns(Nanoseconds now);
  // When the next one comes back.
  [[nodiscard]] std::optional<Nanoseconds> next_return() const;
  // One that nobody knew: as many devices and as much memory as the first has.
  void add(const std::string& node);
  // Other hardware from here on, under the same name.
  void replace(const std::string& node, const std::string& fingerprint);

  // The job's ranks are on these from here on. False where they were already. REQUIRES: known.
  [[nodiscard]] bool run_on(const std::vector<NodeShare>& nodes);
  // As the coordinator places agents that join (Membership::place_more).
  [[nodiscard]] std::optional<LargerPlacement> place_more(std::int32_t world_size,
                                                          const std::vector<NodeShare>& present) const;

 private:
  [[nodiscard]] Cluster cluster_of(const std::vector<NodeShare>& nodes) const;

  Cluster job_;
  std::vector<Link> links_;                  // of all nodes
  std::map<std::string, Node> known_;        // with all of their devices
  std::map<std::string, Nanoseconds> away_;  // until when
};

// How a step's time differs from the plan's true time: log-normal noise, slow drift of the machine, stragglers,
// checkpoints, steps that something hits, and other work that comes and goes.
class StepNoise {
 public:
  StepNoise(const NoiseSettings& settings, std::uint64_t seed)
      : settings_(settings), random_(seed), of_ranks_(seed ^ 0x9a55e5), of_others_(seed ^ 0xb057) {}

  // What the true time of this step is multiplied by. Each step of the job asks once, in order.
  [[nodiscard]] double factor(std::int64_t step, double seconds);
  // By other work at that time, of steps and of probes. Times never go back.
  [[nodiscard]] double busy_factor(double seconds);
  // What is multiplied to the time that one of so many ranks spent in its operators in the step that was last asked
  // for: the machine's drift, the rank's own noise, and now and then it is the slow one.
  [[nodiscard]] double rank_factor(std::int32_t ranks);

 private:
  NoiseSettings settings_;
  Random random_;
  Random of_ranks_;  // apart, so that steps are the same whoever is asked about
  Random of_others_;
  bool busy_ = false;
  double busy_until_ = -1;  // or calm until then; less than 0: not drawn yet
  double drift_ = 0;
  bool begun_ = false;
};

// What the job's time went into.
struct TimeSpent {
  double steps_ms = 0;    // training steps
  double useful_ms = 0;   // of those, what the best plan adopted by then would have taken
  double changes_ms = 0;  // ranks stood still to change plan, or were started anew after the first time
};

class SimulatedCluster {
 public:
  SimulatedCluster(const Cluster& cluster, GroundTruth& truth, const Scenario& scenario, std::int64_t steps,
                   std::uint64_t seed);

  [[nodiscard]] std::vector<NodeShare> nodes() const { return nodes_.shares(); }
  // Actions of preparation and searches are not the cluster's: the caller answers them.
  [[nodiscard]] Status carry_out(const Action& action);
  // The job's launches are on these nodes from here on. Fails where that cluster cannot be priced.
  [[nodiscard]] Status run_on(const std::vector<NodeShare>& nodes);
  // A training step, or a second of silence. Fails where a drift event names what the cluster does not have.
  [[nodiscard]] Status advance();
  [[nodiscard]] std::optional<Event> next_event();
  // What the job would run without the trial in progress: excess over its time is overhead.
  void set_incumbent(const PlanText& plan);

  [[nodiscard]] const ManualClock& clock() const { return clock_; }
  [[nodiscard]] const TimeSpent& spent() const { return spent_; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  // Since the last call. Then nobody has heard what ranks said meanwhile.
  [[nodiscard]] bool coordinator_died();
  // What the agents tell the next one: every node that is there, with its running ranks.
  void introduce_nodes();
  // The agents beside the job's that could join it, and a probe of all of them.
  [[nodiscard]] std::optional<LargerPlacement> place_more(std::int32_t world_size,
                                                          const std::vector<NodeShare>& present) const {
    return nodes_.place_more(world_size, present);
  }
  [[nodiscard]] HardwareProbed probed(const Cluster& cluster);
  // When the next node that is away comes back.
  [[nodiscard]] std::optional<Nanoseconds> next_return() const { return nodes_.next_return(); }
  [[nodiscard]] bool drift_to_come() const { return drift_next_ < scenario_.drift.size(); }
  // When the latest drift began.
  [[nodiscard]] Nanoseconds drifted_at() const { return drifted_at_; }

 private:
  struct Proposal {
    PlanText plan;
    std::int64_t commit_step = -1;
  };
  [[nodiscard]] Status launch(const LaunchOn& launch);
  void kill(const KillOn& kill);
  void propose(const ProposePlan& proposed);
  [[nodiscard]] bool change_plan();
  [[nodiscard]] bool switch_to(std::uint64_t epoch, const Proposal& proposal);
  void run_out_of_memory(std::uint64_t epoch, const TruePrice& price);
  void run_step();
  [[nodiscard]] double warm_up();
  void tell_passes(const TruePrice& price, double warmup);
  void spend(double true_ms, double ms, double noise);
  [[nodiscard]] Status meet_drift();
  [[nodiscard]] Status lose(const DriftSettings& drift);
  [[nodiscard]] Status join(const DriftSettings& drift);
  void replace(const std::string& node, double share);
  [[nodiscard]] Status return_nodes();
  void stand_still(double ms);
  [[nodiscard]] double probed_ms(double true_ms);
  [[nodiscard]] double seconds_now() const { return std::chrono::duration<double>(clock_.monotonic()).count(); }
  [[nodiscard]] DriftSettings link_drift(const std::string& level, const std::string& node,
                                         const std::string& peer) const;
  [[nodiscard]] Probe link_probe(const std::string& level, const std::string& node, const std::string& peer);
  void draw_lies(bool is_new);
  [[nodiscard]] double told_ms(double ms);
  void end_ranks(int exit_code, const std::string& last_output);
  void tell(std::int32_t rank, RankNews news);
  void tell_all(const RankNews& news);
  [[nodiscard]] std::int32_t ranks() const { return nodes_.job().devices(); }
  [[nodiscard]] const TruePrice& price_of(const PlanText& plan) { return truth_.price(tuned_plan(plan), plan.hash); }

  SimulatedNodes nodes_;
  GroundTruth& truth_;
  Scenario scenario_;
  StepNoise noise_;
  Random faults_;
  Random probe_noise_;
  ManualClock clock_;
  std::deque<Event> events_;
  TimeSpent spent_;
  std::size_t drift_next_ = 0;
  Nanoseconds drifted_at_{0};
  PlanText incumbent_;

  std::int64_t job_steps_ = 0;
  std::int64_t last_step_ = 0;
  std::int64_t step_ = 0;
  std::int64_t furthest_ = 0;
  std::int64_t snapshot_ = 0;
  std::uint64_t launch_ = 0;
  bool alive_ = false;
  bool silent_ = false;
  bool coordinator_died_ = false;
  bool mute_ = false;  // rank 0 tells of no steps
  double clock_speed_ = 1;
  std::vector<DriftSettings> slow_links_;  // so far, the last of a link counts
  std::set<std::string> launched_on_;
  std::map<std::string, double> replacements_;  // of nodes that are away: the speed of what comes in their place
  std::uint64_t epoch_ = 0;
  PlanText running_;
  std::int64_t steps_on_plan_ = 0;
  std::int64_t preparations_ = 0;  // of this launch; the last rank tells of them
  bool starts_ = false;            // no plan has been changed since the first launch
  std::map<std::uint64_t, Proposal> proposals_;
  std::set<std::string> ran_;  // plans that have worked once
};

}  // namespace trimtab::coordinator
