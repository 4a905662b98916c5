#include "native/costs/optimizer_estimate.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kDoubtOfPeers = 0.2;   // other operators' updates: as many bytes, in other shapes
constexpr double kDoubtOfMemory = 0.6;  // how often bytes move, and the device's balance
constexpr double kTimesMoved = 2;
constexpr double kFlopsPerByteOfHalf = 120;
constexpr double kFlopsPerByteOfSingle = 20;

Value about(double ms, double doubt) {
  return {ms, doubt * ms, Quality::kEstimated};
}

bool half_precision(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16";
}

}  // namespace

Value estimated_update(const Model& model, const Operator& op, const UpdatePace& pace, double forward_ms) {
  const auto parameters = static_cast<double>(op.parameter_bytes);
  if (parameters <= 0) return {0, 0, Quality::kEstimated};
  if (pace.ms_per_byte > 0) return about(parameters * pace.ms_per_byte, kDoubtOfPeers);
  if (pace.ms_per_flop > 0) {
    const double once =
        parameters * (2 + model.gradient_bytes_per_parameter_byte + 2 * model.optimizer_bytes_per_parameter_byte);
    const double balance = half_precision(model.dtype) ? kFlopsPerByteOfHalf : kFlopsPerByteOfSingle;
    return about(kTimesMoved * once * balance * pace.ms_per_flop, kDoubtOfMemory);
  }
  return forward_ms > 0 ? about(forward_ms, 1) : Value{};
}

}  // namespace trimtab::tuner
