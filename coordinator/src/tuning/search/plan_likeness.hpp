#pragma once

// What measured plans say of plans that were not measured, beyond what calibration says of all: two plans that run most
// operators in the same way share most of what the cost model gets wrong about them, and two that spend as much of
// their time communicating share what calibration leaves open. A Gaussian process over the residuals log(measured /
// calibrated prediction) whose covariance is the share of operators run alike plus that of the factors (sums of
// indicator kernels are positive semidefinite). Calibration has seen
// the same measurements, so that what it leaves open counts as open a little less than it is. Pure.

#include <cstddef>
#include <vector>

#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "tuner/calibration.hpp"
#include "tuning/search/gaussian_process.hpp"

namespace trimtab::coordinator {

// From 0 to 1: operators with the same samples per replica, dp and tp count most, those on the same stage, and those
// recomputed alike, the rest.
[[nodiscard]] double likeness(const Plan& a, const Plan& b);

// A measured plan beside its calibrated prediction.
struct Residual {
  Plan plan;
  Prediction prediction;
  double log_ratio = 0;  // measured over predicted
  double noise = 0;      // standard error of log_ratio
};

struct Gain {
  double log_ratio = 0;  // time of `from` over time of `to`: above 0, `to` is faster
  double sigma = 0;
};

class Residuals {
 public:
  // The predictions are of this calibration.
  Residuals(std::vector<Residual> known, tuner::Calibration calibration);

  // `from` and `to` with their calibrated predictions.
  [[nodiscard]] Gain gain(const Plan& from, const Prediction& of_from, const Plan& to, const Prediction& of_to) const;

 private:
  // Of the logarithms of two plans' times.
  [[nodiscard]] double covariance(const Plan& a, const Prediction& of_a, const Plan& b, const Prediction& of_b) const;
  [[nodiscard]] double of_factors(const Prediction& a, const Prediction& b) const;
  // With each known one.
  [[nodiscard]] std::vector<double> covariances(const Plan& plan, const Prediction& prediction) const;
  [[nodiscard]] GaussianProcess process() const;

  std::vector<Residual> known_;
  tuner::Calibration calibration_;
  GaussianProcess process_;
};

}  // namespace trimtab::coordinator
