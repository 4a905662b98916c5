#include <algorithm>

#include "native/calibration/term_rows.hpp"

namespace trimtab::tuner {
namespace {

// Whether in front of the diagonal or behind it.
double correlation(const Calibration& calibration, std::size_t i, std::size_t j) {
  if (i == j) return 1;
  if (i > j) std::swap(i, j);
  return calibration.correlations[j * (j - 1) / 2 + i];
}

TimeSlopes sigmas(const Calibration& calibration) {
  TimeSlopes all{calibration.computation.log_sigma, calibration.communication.log_sigma, calibration.fixed_sigma_ms};
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    all[place(k)] = calibration.classes[k].log_sigma;
  }
  all[kOverlapping] = calibration.overlap.log_sigma;
  all[kBubble] = calibration.bubble.log_sigma;
  all[kLaunching] = calibration.launching.log_sigma;
  return all;
}

}  // namespace

TimeSlopes time_slopes(const Prediction& prediction) {
  const CommunicationShares& of_class = prediction.communication_shares;
  return {prediction.computation_share_ms,
          prediction.communication_share_ms,
          1,
          of_class.collectives,
          of_class.gradients,
          of_class.transfers,
          prediction.overlap_share_ms,
          prediction.bubble_share_ms,
          prediction.launch_share_ms};
}

TimeCovariance time_covariance(const Calibration& calibration) {
  const TimeSlopes sigma = sigmas(calibration);
  TimeCovariance all{};
  for (std::size_t i = 0; i < kTimeParameters; ++i) {
    for (std::size_t j = 0; j < kTimeParameters; ++j) all[i][j] = sigma[i] * correlation(calibration, i, j) * sigma[j];
  }
  return all;
}

void set_time_covariance(const TimeCovariance& covariance, Calibration& calibration) {
  const auto sigma = [&covariance](std::size_t i) { return std::sqrt(std::max(0.0, covariance[i][i])); };
  calibration.computation.log_sigma = sigma(kComputing);
  calibration.communication.log_sigma = sigma(kCommunication);
  calibration.fixed_sigma_ms = sigma(kFixed);
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    calibration.classes[k].log_sigma = sigma(place(k));
  }
  calibration.overlap.log_sigma = sigma(kOverlapping);
  calibration.bubble.log_sigma = sigma(kBubble);
  calibration.launching.log_sigma = sigma(kLaunching);
  std::size_t pair = 0;
  for (std::size_t j = 1; j < kTimeParameters; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      const double product = sigma(i) * sigma(j);
      calibration.correlations[pair++] = product > 0 ? std::clamp(covariance[i][j] / product, -1.0, 1.0) : 0;
    }
  }
}

double covariance(const Calibration& calibration, const TimeSlopes& a, const TimeSlopes& b) {
  return shared(a, time_covariance(calibration), b);
}

double log_sigma(const Calibration& calibration, CommunicationClass of) {
  TimeSlopes slopes{0, 1, 0};
  slopes[place(static_cast<std::size_t>(of))] = 1;
  return std::sqrt(std::max(0.0, covariance(calibration, slopes, slopes)));
}

}  // namespace trimtab::tuner
