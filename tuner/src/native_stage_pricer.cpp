#include "native_stage_pricer.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

NativeStagePricer::NativeStagePricer(NativeEvaluator& evaluator, std::int32_t microbatch)
    : evaluator_(evaluator), microbatch_(microbatch), rounds_(evaluator.model().global_batch / microbatch) {
  const PlanSpace& space = evaluator.space();
  for (const std::int32_t tp : space.tensor_parallel) {
    for (std::int32_t dp = 1; dp * tp <= space.devices && dp <= microbatch; ++dp) {
      if (microbatch % dp == 0) add_splits(dp * tp);
    }
  }
  // What second choices compute is not in the sums.
  if (space.alternate_dimensions) return;
  const auto operators = static_cast<std::size_t>(space.operators);
  std::vector<double> least(operators, kInfinite);
  for (const auto& [devices, sums] : floors_) {
    for (std::size_t i = 0; i < operators; ++i) least[i] = std::min(least[i], devices * (sums[i + 1] - sums[i]));
  }
  for (const double time : least) least_device_time_ += time;
}

void NativeStagePricer::add_splits(std::int32_t devices) {
  const PlanSpace& space = evaluator_.space();
  if (splits_.count(devices) != 0 || !space.allows_devices(0, devices)) return;
  std::vector<Option> options;
  for (const Split& split : space.splits(evaluator_.model(), microbatch_, devices)) {
    const std::span<const double> sums = evaluator_.computing_sums(microbatch_, split);
    if (!sums.empty()) options.push_back({split, sums});
  }
  if (options.empty()) return;
  const auto operators = static_cast<std::size_t>(space.operators);
  std::vector<double> floors(operators + 1, 0.0);
  for (std::size_t i = 0; i < operators; ++i) {
    double least = kInfinite;
    for (const Option& option : options) least = std::min(least, option.sums[i + 1] - option.sums[i]);
    floors[i + 1] = floors[i] + least / rounds_;
  }
  floors_.emplace(devices, std::move(floors));
  splits_.emplace(devices, std::move(options));
}

double NativeStagePricer::floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const {
  const std::vector<double>& sums = floors_.at(devices);
  return sums[end] - sums[begin];
}

double NativeStagePricer::price(std::int32_t begin, std::int32_t end, const unified::StagePlace& place,
                                const Option& option, double limit) {
  if ((option.sums[end] - option.sums[begin]) / rounds_ >= limit) return kInfinite;
  stage_.end = end;
  stage_.devices = place.devices;
  stage_.split = option.split;
  const std::int32_t held = std::min(static_cast<std::int32_t>(rounds_), place.left);
  const StagePrice& price = evaluator_.stage_alone(stage_, begin, place.first_device, microbatch_, held);
  if (!price.priced || price.excess_bytes > 0) return kInfinite;
  const double each = price.forward + price.backward + price.recompute + price.communication;
  return each + (std::max(0.0, price.sync) + price.optimizer) / rounds_;
}

std::span<const double> NativeStagePricer::times(std::int32_t begin, std::span<const std::int32_t> ends,
                                                 const unified::StagePlace& place) {
  times_.assign(ends.size(), kInfinite);
  for (const Option& option : splits_.at(place.devices)) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      times_[i] = std::min(times_[i], price(begin, ends[i], place, option, times_[i]));
    }
  }
  return times_;
}

CandidateStage NativeStagePricer::stage(std::int32_t begin, std::int32_t end, const unified::StagePlace& place) {
  const std::vector<Option>& options = splits_.at(place.devices);
  CandidateStage best;
  best.end = end;
  best.devices = place.devices;
  best.split = options.front().split;
  double least = kInfinite;
  for (const Option& option : options) {
    const double time = price(begin, end, place, option, least);
    if (time >= least) continue;
    least = time;
    best.split = option.split;
  }
  return best;
}

}  // namespace trimtab::tuner
