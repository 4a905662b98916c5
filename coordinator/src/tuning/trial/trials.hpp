#pragma once

// The trials of a job, and what its plans were measured to take. Which is tried, and when, is the machine's to say.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuning/outcome.hpp"
#include "tuning/trial/pass_times.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Trials {
 public:
  Trials(TrialRecords& records, const View& view, Outcome& out) : records_(records), view_(view), out_(out) {}

  // A step's peak is that of the plan that it ran. Taken as it comes: a plan that ran out of memory may end before all
  // ranks have told of its step.
  void take_peak(std::int32_t rank, const RankStep& step);
  void take_passes(std::int32_t rank, const RankPasses& passes);
  // Other ranks run, or the hardware is another.
  void forget_told();
  void forget_passes() { pass_times_.clear(); }
  void observe(const PlanText& plan, const Measured& measured);
  // Ranks may have told more of them since.
  void update_observations();
  void add_convergence(std::int32_t trial);

  // The latest trial: it begins, goes on and ends. REQUIRES, but for begin(): it goes on.
  const Trial& begin(const PricedPlan& candidate);
  void start() { to_candidate_.reset(); }
  void set_state(TrialState state);
  // The ranks have changed to its plan.
  void changed_to_candidate(double ms, const ChangePhases& phases);
  // A step of the candidate's block. `done`: its blocks, where the step was the last of one. What follows a change and
  // is slow until warm-up has ended is part of what the change costs.
  void add_candidate_step(bool warmup, double wall_ms, const Blocks* done);
  void fail(const Reason& reason, const std::string& message, bool blame_candidate);

  // An adopted plan that fails after all.
  void fail_adopted(Trial& trial, const Reason& reason, const std::string& message);
  // Ranks whose peers' node dies crash or hang long before the node has been silent for so long that it is lost.
  void take_back_blame(const std::string& node);

 private:
  // A change to the trial's candidate whose block is not complete yet.
  struct ToCandidate {
    double ms = 0;
    ChangePhases phases;
    std::vector<double> warm_up_ms;  // by step
  };
  struct Blamed {
    std::string plan_hash;
    Nanoseconds at;
  };
  void take_change(const ToCandidate& change);
  void add_passes(MeasuredPlan& seen);
  void rule_out(const std::string& plan_hash, const Reason& reason);

  TrialRecords& records_;
  const View& view_;
  Outcome& out_;
  std::map<std::string, std::vector<double>> peak_bytes_;  // by rank, of each plan in this launch, or this trial's
  PassTimes pass_times_;                                   // the same
  std::optional<ToCandidate> to_candidate_;
  std::optional<Blamed> blamed_;  // the last one, for what a lost node may have done
};

}  // namespace trimtab::coordinator
