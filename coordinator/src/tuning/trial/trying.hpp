#pragma once

// Plans that run to be measured: the initial one, each trial beside the incumbent, and the final comparison. Sources:
// trial.cpp (a trial from its choice to its end), measuring.cpp (blocks and comparisons).

#include <optional>
#include <string>
#include <utility>

#include "tuning/change/plan_changes.hpp"
#include "tuning/machine.hpp"
#include "tuning/trial/racing.hpp"

namespace trimtab::coordinator {

struct PassedOver;

class Trying {
 public:
  Trying(Machine& machine, PlanChanges& changes) : m_(machine), changes_(changes) {}

  // Nothing is under way: a plan is searched for, where nothing forbids that or comes first.
  [[nodiscard]] Next go_on();
  // What was found: a trial begins, or none is worth while.
  [[nodiscard]] Next decide(const SearchReply& reply);
  [[nodiscard]] Next start_trial();
  // The trial that was asked about. A job that may not be stopped yet is tried after its next checkpoint.
  [[nodiscard]] Next approved();
  // The job's checkpoint has become whole: what waits for it begins.
  [[nodiscard]] Next saved();
  // A plan is to be tried after the job's next checkpoint.
  [[nodiscard]] bool waits() const { return waiting_.has_value() || approved_; }
  void wait_no_longer();
  // Whether to try the plan was asked, and what the question was about has changed.
  void withdraw_question(const std::string& why);

  [[nodiscard]] Next measure_initial();
  [[nodiscard]] Next begin_comparison();
  // Of the job, in whatever phase but the run apart.
  void take(const JobStep& step);
  // What follows where it is not of the plan that ranks should run; nothing: it is.
  [[nodiscard]] std::optional<Next> unexpected(const JobStep& step);
  // REQUIRES: plans are measured in turn.
  [[nodiscard]] Next measure(const JobStep& step);
  // Ranks live, and yet no step may come that all of them tell of.
  [[nodiscard]] Next tick();

 private:
  [[nodiscard]] Interleaving& blocks() { return m_.activity.get<Measuring>()->blocks; }
  [[nodiscard]] Next begin_trial(const PricedPlan& plan);
  [[nodiscard]] Next start_approved();
  // Why a trial of the plan costs too much, or may not copy the checkpoint, and what it needs; nothing: it may begin.
  [[nodiscard]] std::optional<std::pair<std::string, std::string>> too_dear(const PricedPlan& plan);
  [[nodiscard]] Next judge_race();
  [[nodiscard]] Next conclude_trial(const Race& race, const Reason& reason);
  void adopt(Trial& trial);
  // A trial whose measurements cannot be believed fails, through no fault of its plan.
  [[nodiscard]] Next unbelievable(const Reason& reason, const std::string& message);
  [[nodiscard]] Next recommend(const PricedPlan* best);
  [[nodiscard]] Next leave_untried(const PricedPlan& best, const std::string& why, const std::string& needed);
  void pass_over(const PassedOver& copy);
  void take_search(const SearchReply& reply);

  [[nodiscard]] Next leave_out(const JobStep& step);
  void record(const JobStep& step, bool warmup);
  [[nodiscard]] Next measured_initial();
  [[nodiscard]] Next block_done();
  [[nodiscard]] Next next_block();
  [[nodiscard]] Next stop_for_overhead();
  [[nodiscard]] Next give_up_comparison();
  [[nodiscard]] Next conclude_comparison();
  void leave_adopted(const Measured& other, const Ratio& ratio);

  Machine& m_;
  PlanChanges& changes_;
  std::optional<PricedPlan> waiting_;  // for the job's next checkpoint
  bool approved_ = false;              // the trial that awaited it, and waits for that now
};

}  // namespace trimtab::coordinator
