#include "native/costs/tensor_estimate.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

// Of one rank's computing, what each of so many does.
double share(double undivided, std::int32_t ranks) {
  return undivided + (1 - undivided) / ranks;
}

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

Value shared_computing(const Value& computing, std::int32_t from, std::int32_t to, double undivided) {
  TRIMTAB_ASSERT(from >= 1 && from <= to, "computing is shared among more ranks, not among fewer");
  if (computing.quality == Quality::kMissing || from == to) return computing;
  const auto at = [&](double u) { return share(u, to) / share(u, from); };
  const double factor = at(undivided);
  const double doubt = at(2 * undivided) - factor;
  return {computing.mean * factor, computing.error * factor + computing.mean * doubt, Quality::kEstimated};
}

Value with_all_reduces(const Value& computing, std::optional<std::int32_t> reduces, const Value& reduce) {
  if (reduces == 0) return computing;
  if (computing.quality == Quality::kMissing || reduce.quality == Quality::kMissing) return {};
  const double count = reduces.value_or(1);
  const double doubt = reduces ? 0 : reduce.mean / 2;
  return {computing.mean + count * reduce.mean, computing.error + count * reduce.error + doubt, Quality::kEstimated};
}

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
