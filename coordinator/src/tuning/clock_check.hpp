#pragma once

// Whether the step times that ranks tell can be believed, beside when the steps arrive here: a rank's clock may run
// fast or slow, be set, or be made up. Both plans of a trial are watched. What a job does between its steps makes every
// step arrive later than it tells, under either plan alike; a clock that lies under one of them does not. Pure.

#include <array>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace trimtab::coordinator {

class ClockCheck {
 public:
  // A step of either plan. One that does not count (warm-up) dates the next all the same.
  void add(bool second, bool counts, Nanoseconds arrived, double told_ms);
  // The plan changes: the next step is not dated by the one before.
  void interrupt() { known_ = false; }

  // Why the comparison of the two plans cannot be believed; empty = it can, or too little is known. A snapshot between
  // two steps moves the sum of what passed and not the median; messages that come in one go, the median and not the
  // sum. A wrong clock moves both.
  [[nodiscard]] std::string contradiction() const;

 private:
  struct Side {
    double told_ms = 0;
    double passed_ms = 0;
    std::vector<double> shares;  // passed over told, of each step
  };
  std::array<Side, 2> sides_;
  Nanoseconds last_{0};
  bool known_ = false;
};

}  // namespace trimtab::coordinator
