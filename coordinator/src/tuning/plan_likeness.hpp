#pragma once

// What measured plans say of plans that were not measured, beyond what calibration says of all: two plans that run most
// operators in the same way share most of what the cost model gets wrong about them. A Gaussian process over the
// residuals log(measured / calibrated prediction) whose covariance is the share of operators run alike (Rasmussen and
// Williams 2006, equations 2.23 and 2.24; sums of indicator kernels are positive semidefinite). Pure.

#include <cstddef>
#include <vector>

#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::coordinator {

// From 0 to 1: operators with the same samples per replica, dp and tp count most, those on the same stage, and those
// recomputed alike, the rest.
[[nodiscard]] double likeness(const Plan& a, const Plan& b);

// A measured plan beside its calibrated prediction.
struct Residual {
  Plan plan;
  double log_ratio = 0;  // measured over predicted
  double noise = 0;      // standard error of log_ratio
};

struct Gain {
  double log_ratio = 0;  // time of `from` over time of `to`: above 0, `to` is faster
  double sigma = 0;
};

class Residuals {
 public:
  // `sigma` is the residual's standard deviation before any is known.
  Residuals(std::vector<Residual> known, double sigma);

  // `from` and `to` with their calibrated predictions.
  [[nodiscard]] Gain gain(const Plan& from, const Prediction& of_from, const Plan& to, const Prediction& of_to,
                          const tuner::Calibration& calibration) const;

 private:
  struct Posterior {
    double mean = 0;
    std::vector<double> covariances;  // with the known ones
    std::vector<double> solved;       // those through the inverse of the known ones' covariance
  };
  [[nodiscard]] Posterior posterior(const Plan& plan) const;
  [[nodiscard]] std::vector<double> solve(std::vector<double> right) const;

  std::vector<Residual> known_;
  double sigma_;
  std::vector<std::vector<double>> factor_;  // lower Cholesky factor of the known ones' covariance
  std::vector<double> weights_;
};

}  // namespace trimtab::coordinator
