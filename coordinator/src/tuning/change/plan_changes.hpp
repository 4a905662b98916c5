#pragma once

// How ranks come to run another plan: by agreement while they run (plan_change.cpp), or by a new launch
// (restarting.cpp), and back to the incumbent.

#include <cstdint>
#include <optional>

#include "tuning/launch/launch.hpp"
#include "tuning/machine.hpp"

namespace trimtab::coordinator {

class PlanChanges {
 public:
  PlanChanges(Machine& machine, Launch& launch) : m_(machine), launch_(launch) {}

  // `then`: what is measured under the plan; nothing: it is the incumbent, to which the ranks are brought back.
  void begin(const PlanText& plan, std::optional<Measuring> then);
  [[nodiscard]] Next roll_back();
  // A live one takes too long.
  [[nodiscard]] Next tick();
  // After an agent's absence: what it may have missed.
  void resend();
  [[nodiscard]] Next handle(std::int32_t rank, const RankAcknowledged& acknowledged);
  [[nodiscard]] Next handle(std::int32_t rank, const RankRefused& refused);
  [[nodiscard]] Next handle(std::int32_t rank, const RankActive& active);
  [[nodiscard]] Next handle(std::int32_t rank, const RankFailed& failed);

  // The ranks of the launch before are dead.
  void launch_restart();
  // The launch has come to its first step.
  [[nodiscard]] Next restarted(Restart restart);
  [[nodiscard]] Next trial_launch_failed(const Reason& reason, const std::string& why);
  // What follows where the step's plan is left for what it told of loss and gradient norm.
  [[nodiscard]] std::optional<Next> spoils(const JobStep& step);

 private:
  void begin_restart(const PlanText& plan, std::optional<Measuring> then);
  [[nodiscard]] Next done();
  [[nodiscard]] Next failed(const Reason& reason, const std::string& message);
  [[nodiscard]] Next active_plan_failed(const RankFailed& failed, const Reason& reason, const std::string& message);

  Machine& m_;
  Launch& launch_;
  std::int32_t rollbacks_ = 0;  // in a row
};

}  // namespace trimtab::coordinator
