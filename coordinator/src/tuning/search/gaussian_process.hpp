#pragma once

// What noisy measurements of some points say of the difference between two others, by the covariances that are assumed
// between all of them (Rasmussen and Williams 2006, equations 2.23 and 2.24, of a mean of zero). A few dozen points.
// Pure.

#include <vector>

namespace trimtab::coordinator {

struct Estimate {
  double mean = 0;
  double sigma = 0;
};

class GaussianProcess {
 public:
  // `covariance`: of the measured points without their noise, of which the lower triangle is read. `noise`: standard
  // deviations; what is less than a thousandth counts as that, so that the matrix stays regular.
  // REQUIRES: as many rows, noises and values.
  GaussianProcess(const std::vector<std::vector<double>>& covariance, const std::vector<double>& noise,
                  std::vector<double> values);

  // Of a sum of points, weighed, whose covariances with the measured ones are `with`, and whose variance is `prior`.
  [[nodiscard]] Estimate estimate(const std::vector<double>& with, double prior) const;

 private:
  [[nodiscard]] std::vector<double> solve(std::vector<double> right) const;

  std::vector<std::vector<double>> factor_;  // lower Cholesky factor
  std::vector<double> weights_;
};

}  // namespace trimtab::coordinator
