#pragma once

// Which parameters of time are applied: those with which steps that were left out are predicted better, found one after
// the other. Pure.

#include "native/calibration/left_out.hpp"
#include "native/calibration/time_fit.hpp"

namespace trimtab::tuner {

// Measured steps as a cost model foretells them.
class MeasuredSteps {
 public:
  virtual ~MeasuredSteps() = default;

  [[nodiscard]] virtual std::size_t observations() const = 0;
  // Where learning begins. That of what is left out knows nothing of that observation.
  [[nodiscard]] virtual const Calibration& base() const = 0;
  [[nodiscard]] virtual const Calibration& base_without(std::size_t observation) const = 0;
  // Whether that is the same for all of them, so that rows are, too.
  [[nodiscard]] virtual bool one_base() const = 0;
  // All rows, linear around these parameters: of base(), and, where there is not one base, of base_without() then.
  [[nodiscard]] virtual std::vector<TimeRow> rows(const TimeSlopes& at) = 0;
  [[nodiscard]] virtual std::vector<TimeRow> rows_without(std::size_t observation, const TimeSlopes& at) = 0;
  // The step of the observation, under such parameters of its base_without().
  [[nodiscard]] virtual double predict_without(std::size_t observation, const TimeSlopes& at) const = 0;
  [[nodiscard]] virtual double measured_ms(std::size_t observation) const = 0;
};

struct TimeChoice {
  Calibration calibration;
  LeftOutErrors errors;  // of steps, each predicted from the others
};

// REQUIRES: some observation.
[[nodiscard]] TimeChoice choose_factors(MeasuredSteps& steps);
// The base as it is, with what the steps say of its residual.
[[nodiscard]] TimeChoice stand_still(MeasuredSteps& steps);

}  // namespace trimtab::tuner
