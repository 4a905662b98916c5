#pragma once

// Whether the step times that ranks tell can be believed, beside when the steps arrive here: a rank's clock may run
// fast or slow, be set, or be made up. Both plans of a trial are watched. What a job does between its steps makes every
// step arrive later than it tells, under either plan alike; a clock that lies under one of them does not. Pure.
//
// Steps of the second plan that arrive where neither the first plan's time between steps (the sum) nor its share of
// time told (the product) would have them contradict it. How sure that is, arrival itself tells: by its spread over the
// trial's blocks and over the steps within them. Not noticed: a clock that is wrong by less than 5 %, or by less than
// 100 ms over all the trial; one that is wrong under both plans alike, which the comparison does not depend on; and a
// job that under one plan alone does more between its steps is taken for one.

#include <array>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace trimtab::coordinator {

struct ArrivedStep {
  double told_ms = 0;
  double passed_ms = 0;  // here, since the step before
};

class ClockCheck {
 public:
  // A step of either plan. One that does not count (warm-up) dates the next all the same.
  void add(bool second, bool counts, Nanoseconds arrived, double told_ms);
  // The plan changes: the next step is not dated by the one before.
  void interrupt() { known_ = false; }
  // Of either plan's steps.
  void begin_block() { begins_block_ = true; }

  // Why the comparison of the two plans cannot be believed; empty = it can, or too little is known. A snapshot between
  // two steps moves the sum of what passed and not the median; messages that come in one go, the median and not the
  // sum. A wrong clock moves both.
  [[nodiscard]] std::string contradiction() const;

 private:
  struct Side {
    double told_ms = 0;
    double passed_ms = 0;
    std::vector<double> shares;  // passed over told, of each step
    std::vector<std::vector<ArrivedStep>> blocks;
  };
  [[nodiscard]] bool grossly_apart() const;
  [[nodiscard]] bool surely_apart() const;

  std::array<Side, 2> sides_;
  Nanoseconds last_{0};
  bool known_ = false;
  bool begins_block_ = true;
};

}  // namespace trimtab::coordinator
