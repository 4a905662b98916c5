#pragma once

// Maximum a posteriori by Gauss and Newton, of those parameters of time that are applied. A step is modelled as
//   measured = e^a * computation share + e^b * sum over classes c of e^u_c * share of c + fixed share + g
//              + e^o * overlap share + e^w * bubble share + e^l * launch share + noise,
// with normal priors; noise is the measurement's own and a relative residual, itself shrunk towards its prior. The
// shares are the prediction's: what the step would scale with. What a stage waited for (term_rows.hpp) is modelled
// alike. Pure.

#include <bitset>
#include <span>

#include "native/calibration/term_rows.hpp"

namespace trimtab::tuner {

// Which parameters of time are learnt; the others stand at the prior.
using Applied = std::bitset<kTimeParameters>;

struct TimePrior {
  TimeSlopes mean{};
  TimeCovariance covariance{};  // of what is learnt
  double fixed_variance = 0;    // where the fixed time is not
  double residual = 0;
};
// Of a calibration; a fixed time that nobody knows is as large as a small part of the mean step may be.
[[nodiscard]] TimePrior prior_of(const Calibration& calibration, std::span<const TimeRow> rows);

struct TimeFit {
  TimeSlopes at{};
  TimeCovariance covariance{};  // of applied parameters, classes' as TimeFitter says
  double residual = 0;
};

// Where the factor on all communication is not applied, an applied class's factor is learnt as if it were of its own:
// it may differ from the prior by as much as both may. Where no class is, the factor on all may.
class TimeFitter {
 public:
  TimeFitter(const TimePrior& prior, const Applied& applied);

  // From all rows but those of the observation that is left out; from `begin` on, where a fit is known nearby.
  [[nodiscard]] TimeFit fit(std::span<const TimeRow> rows, std::optional<std::size_t> left_out = {},
                            const TimeFit* begin = nullptr) const;
  // Writes what was learnt into a calibration that has the prior's values. What is not applied stays as unsure as it
  // was.
  void take(const TimeFit& fit, Calibration& calibration) const;

 private:
  // Sums over applied parameters, in their order.
  struct Sums {
    TimeCovariance information{};
    TimeSlopes gradient{};
  };
  [[nodiscard]] Sums sums(std::span<const TimeRow> rows, std::optional<std::size_t> left_out, const TimeFit& fit) const;
  // The largest step that a logarithm has made.
  double newton_step(std::span<const TimeRow> rows, std::optional<std::size_t> left_out, TimeFit& fit) const;
  [[nodiscard]] double residual_of(std::span<const TimeRow> rows, std::optional<std::size_t> left_out,
                                   const TimeFit& fit) const;
  [[nodiscard]] bool apart(std::size_t parameter) const;

  const TimePrior& prior_;
  Applied applied_;
  std::vector<std::size_t> of_;  // applied parameters
  std::vector<std::size_t> others_;
  TimeCovariance own_{};        // the prior's, of classes as they are learnt
  TimeCovariance precision_{};  // of applied parameters, in their order
  TimeCovariance unlearnt_{};   // what the prior says of the others
};

// Adds `times` the factor on all communication to these classes' own: a sum in place of a part, or the part again.
void add_common(const Applied& classes, double times, TimeCovariance& of);

// Of a wait: the variance of its noise and of what its factors may be off by, as the prior has them.
void set_expected(const TimePrior& prior, std::span<TimeRow> rows);

}  // namespace trimtab::tuner
