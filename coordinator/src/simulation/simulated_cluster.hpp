#pragma once

// The executor behind a simulated job: carries out the tuning machine's actions in virtual time and says what happens,
// as agents and ranks would. One job, one plan on all ranks at a time. Not thread-safe.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/result.hpp"
#include "coordinator/simulation.hpp"
#include "schema/cluster.hpp"
#include "simulation/ground_truth.hpp"
#include "simulation/step_noise.hpp"
#include "tuning/action.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

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

  [[nodiscard]] std::vector<NodeShare> nodes() const;
  // Actions of preparation and searches are not the cluster's: the caller answers them. Fails where the cluster that a
  // lost node leaves cannot be priced.
  [[nodiscard]] Status carry_out(const Action& action);
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
  [[nodiscard]] bool drift_to_come() const { return drift_next_ < scenario_.drift.size(); }

 private:
  struct HashedPlan {
    Plan plan;
    std::string hash;
  };
  struct Proposal {
    HashedPlan plan;
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
  void lose(const DriftSettings& drift);
  void return_nodes();
  void stand_still(double ms);
  [[nodiscard]] Status leave_lost_nodes();
  void probe();
  [[nodiscard]] double probed_ms(double true_ms);
  [[nodiscard]] DriftSettings link_drift(const std::string& level, const std::string& node,
                                         const std::string& peer) const;
  [[nodiscard]] Probe link_probe(const std::string& level, const std::string& node, const std::string& peer);
  void draw_lies(bool is_new);
  [[nodiscard]] double told_ms(double ms);
  void end_ranks(int exit_code, const std::string& last_output);
  void tell(std::int32_t rank, RankNews news);
  void tell_all(const RankNews& news);
  [[nodiscard]] std::int32_t ranks() const { return cluster_.devices(); }
  [[nodiscard]] const TruePrice& price_of(const HashedPlan& plan) { return truth_.price(plan.plan, plan.hash); }
  [[nodiscard]] static HashedPlan parsed(const std::string& plan_json);

  Cluster cluster_;
  GroundTruth& truth_;
  Scenario scenario_;
  StepNoise noise_;
  Random faults_;
  Random probe_noise_;
  ManualClock clock_;
  std::deque<Event> events_;
  TimeSpent spent_;
  std::size_t drift_next_ = 0;
  HashedPlan incumbent_;

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
  std::map<std::string, Nanoseconds> away_;  // until when, by node
  std::uint64_t epoch_ = 0;
  HashedPlan running_;
  std::int64_t steps_on_plan_ = 0;
  std::int64_t preparations_ = 0;  // of this launch; the last rank tells of them
  bool starts_ = false;  // no plan has been changed since the first launch
  std::map<std::uint64_t, Proposal> proposals_;
  std::set<std::string> ran_;  // plans that have worked once
};

}  // namespace trimtab::coordinator
