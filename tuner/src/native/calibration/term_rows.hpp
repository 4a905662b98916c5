#pragma once

// What was measured of time, as rows of one fit: a step's time, and what its stages waited for, each linear in the
// factors around those that it was predicted with. A stage's waits say which class of communication was wrong; what
// computed is left to operator_factors.hpp. Pure.

#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// Where each of the parameters of time stands (tuner/calibration.hpp), and how far they make times differ. Pure.
inline constexpr std::size_t kComputing = 0;
inline constexpr std::size_t kCommunication = 1;
inline constexpr std::size_t kFixed = 2;  // the one that is no logarithm
inline constexpr std::size_t kOverlapping = 3 + kCommunicationClasses;
inline constexpr std::size_t kBubble = kOverlapping + 1;
inline constexpr std::size_t kLaunching = kBubble + 1;

[[nodiscard]] constexpr std::size_t place(std::size_t of_class) {
  return 3 + of_class;
}

// Of two times with these slopes: their covariance.
[[nodiscard]] inline double shared(const TimeSlopes& a, const TimeCovariance& covariance, const TimeSlopes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j < kTimeParameters; ++j) sum += a[i] * covariance[i][j] * b[j];
  }
  return sum;
}

// The calibration's parameters of time, in their order.
[[nodiscard]] TimeSlopes parameters(const Calibration& calibration);
void set_parameters(const TimeSlopes& at, Calibration& calibration);
// What the parameters make of times: factors, where a parameter is the logarithm of one.
[[nodiscard]] TimeSlopes factors(const TimeSlopes& at);

struct Measurement {
  double ms = 0;
  double noise = 0;  // its standard error
};

struct TimeRow {
  double computation = 0;                                // ms at a factor of 1, as the rest
  double unclassed = 0;                                  // communication
  std::array<double, kCommunicationClasses> of_class{};  // less than 0 where a wait shrinks as others grow
  double overlap = 0;
  double bubble = 0;
  double launching = 0;
  double constant = 0;
  double measured = 0;
  double noise = 0;
  bool is_step = false;  // else it has no part in the fixed time
  double expected = 1;   // of a wait: its variance before anything is learnt (time_fit.hpp)
  std::size_t observation = 0;

  // Under factors(): the row's time, and its slopes by the parameters.
  [[nodiscard]] double model(const TimeSlopes& at) const;
  [[nodiscard]] TimeSlopes slope(const TimeSlopes& at) const;
};

// A prediction of `ms` with these slopes, made at `at`.
[[nodiscard]] TimeRow step_row(const Calibration& at, double ms, const TimeSlopes& slopes, const Measurement& measured);

// Adds what stages waited for, where observations tell of it. `model` has made the predictions. Plans whose passes are
// no simple sums (operator_factors.hpp), and those that lack costs, teach nothing.
void add_term_rows(const NativeCostModel& model, const std::vector<Observation>& observations,
                   const std::vector<Prediction>& predictions, std::vector<TimeRow>& rows);

}  // namespace trimtab::tuner
