#pragma once

// How much slower a computation and a communication run while both do. Plain values.

#include <algorithm>
#include <limits>

namespace trimtab::tuner {

struct OverlapSlowdown {
  double computation = 1.0;    // alpha
  double communication = 1.0;  // beta
  bool measured = false;
  double computation_error = 0;  // standard errors
  double communication_error = 0;
  bool operator==(const OverlapSlowdown&) const = default;
};

// The communication waits while the other side runs, which it does not disturb.
inline constexpr OverlapSlowdown kCommunicationWaits{1.0, std::numeric_limits<double>::infinity()};

// Another view of all slowdowns at once: what each adds is multiplied by `factor`, and each is `sigmas` of its standard
// errors larger; none falls below 1.
struct OverlapScale {
  double factor = 1;
  double sigmas = 0;

  // With a calibration's factor on top.
  [[nodiscard]] OverlapScale times(double more) const { return {factor * more, sigmas}; }
  [[nodiscard]] bool plain() const { return factor == 1 && sigmas == 0; }
  [[nodiscard]] OverlapSlowdown of(OverlapSlowdown slowdown) const {
    if (plain()) return slowdown;
    slowdown.computation = seen(slowdown.computation, slowdown.computation_error);
    slowdown.communication = seen(slowdown.communication, slowdown.communication_error);
    return slowdown;
  }

 private:
  [[nodiscard]] double seen(double slowdown, double error) const {
    if (slowdown == std::numeric_limits<double>::infinity()) return slowdown;
    return std::max(1.0, 1 + factor * (slowdown - 1) + sigmas * error);
  }
};

}  // namespace trimtab::tuner
