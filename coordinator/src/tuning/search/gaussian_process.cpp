#include "tuning/search/gaussian_process.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kLeastNoise = 1e-3;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

GaussianProcess::GaussianProcess(const std::vector<std::vector<double>>& covariance, const std::vector<double>& noise,
                                 std::vector<double> values) {
  const std::size_t n = covariance.size();
  TRIMTAB_ASSERT(noise.size() == n && values.size() == n, "each measured point has a noise and a value");
  factor_.assign(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = covariance[i][j];
      const double sigma = std::max(noise[i], kLeastNoise);
      if (i == j) sum += sigma * sigma;
      for (std::size_t k = 0; k < j; ++k) sum -= factor_[i][k] * factor_[j][k];
      factor_[i][j] = i == j ? std::sqrt(std::max(sum, kLeastNoise * kLeastNoise)) : sum / factor_[j][j];
    }
  }
  weights_ = solve(std::move(values));
}

std::vector<double> GaussianProcess::solve(std::vector<double> right) const {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= factor_[i][k] * right[k];
    right[i] /= factor_[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= factor_[k][i] * right[k];
    right[i] /= factor_[i][i];
  }
  return right;
}

Estimate GaussianProcess::estimate(const std::vector<double>& with, double prior) const {
  const double variance = std::max(0.0, prior - dot(with, solve(with)));
  return {dot(with, weights_), std::sqrt(variance)};
}

}  // namespace trimtab::coordinator
