#pragma once

// The native cost model: iteration time by exact event-driven simulation of the schedule, and memory, of any plan that
// the reference trainer executes. Source: design of the trainer's 1F1B (PipeDream-Flush, Narayanan et al. 2021);
// overlap rule of Trimtab's ARCHITECTURE.md. A CostModel borrows its table: the table must outlive it. const methods:
// any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "schema/timeline.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

using EventKind = TimelineKind;

struct TimelineEvent {
  std::int32_t stage = 0;
  EventKind kind = EventKind::kForward;
  std::int32_t microbatch = 0;  // -1 where it does not apply
  double begin_ms = 0;
  double end_ms = 0;
};

class CostModel {
 public:
  explicit CostModel(const CostTable& table, Calibration calibration = {});

  // REQUIRES: validate(plan) is empty. A plan over a device's memory is priced all the same, with feasible = false.
  [[nodiscard]] Prediction evaluate(const Plan& plan) const;
  // The simulated iteration behind evaluate(), sorted by (stage, begin).
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const;
  [[nodiscard]] const CostTable& table() const { return *table_; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_; }

 private:
  const CostTable* table_;
  Calibration calibration_;
};

}  // namespace trimtab::tuner
