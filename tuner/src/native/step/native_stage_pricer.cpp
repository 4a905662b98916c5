#include "native/step/native_stage_pricer.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kRemembered = 1 << 15;  // stages with memory switches

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
    const bool switches = evaluator_.has_switches() && split == switchable(split);
    if (!sums.empty()) options.push_back({split, sums, switches});
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

double NativeStagePricer::price(std::int32_t begin, std::int32_t end, const StagePlace& place, const Option& option,
                                double limit) {
  if ((option.sums[end] - option.sums[begin]) / rounds_ >= limit) return kInfinite;
  stage_.end = end;
  stage_.devices = place.devices;
  stage_.split = option.split;
  const std::int32_t held = std::min(static_cast<std::int32_t>(rounds_), place.left);
  const StagePrice& price = evaluator_.stage_alone(stage_, begin, place.first_device, microbatch_, held);
  if (!price.priced || price.excess_bytes > 0) return kInfinite;
  recompute_ = price.recompute;
  return round_ms(price);
}

double NativeStagePricer::round_ms(const StagePrice& price) const {
  const double each = price.forward + price.backward + price.recompute + price.communication;
  return each + (std::max(0.0, price.sync) + price.optimizer) / rounds_;
}

const NativeStagePricer::Switched& NativeStagePricer::switched(std::int32_t begin, std::int32_t end,
                                                               const StagePlace& place, const Option& option) {
  const std::int32_t held = std::min(static_cast<std::int32_t>(rounds_), place.left);
  const std::int32_t at = evaluator_.place_of(place.first_device, place.devices);
  const std::array key{begin, end, at, place.devices, held, option.split.dp, option.split.tp};
  const auto known = switched_.find(key);
  if (known != switched_.end()) return known->second;
  if (evaluator_.stopped()) return unpriced_;
  if (switched_.size() >= kRemembered) switched_.clear();
  const auto found = switched_.try_emplace(key, Switched{kInfinite, {}}).first;
  stage_.end = end;
  stage_.devices = place.devices;
  stage_.split = option.split;
  std::optional<CandidateStage> with =
      evaluator_.with_best_switches(stage_, begin, place.first_device, microbatch_, held);
  if (!with) return found->second;
  const StagePrice& price = evaluator_.stage_alone(*with, begin, place.first_device, microbatch_, held);
  if (!price.priced || price.excess_bytes > 0) return found->second;
  found->second = {round_ms(price), *std::move(with)};
  return found->second;
}

std::span<const double> NativeStagePricer::times(std::int32_t begin, std::span<const std::int32_t> ends,
                                                 const StagePlace& place) {
  times_.assign(ends.size(), kInfinite);
  needs_memory_.assign(ends.size(), true);
  const std::vector<Option>& options = splits_.at(place.devices);
  for (const Option& option : options) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const double time = price(begin, ends[i], place, option, times_[i]);
      if (time >= times_[i]) continue;
      times_[i] = time;
      needs_memory_[i] = recompute_ > 0;
    }
  }
  for (const Option& option : options) {
    for (std::size_t i = 0; i < ends.size() && option.switches; ++i) {
      const bool slower = (option.sums[ends[i]] - option.sums[begin]) / rounds_ >= times_[i];
      if (needs_memory_[i] && !slower) times_[i] = std::min(times_[i], switched(begin, ends[i], place, option).time);
    }
  }
  return times_;
}

CandidateStage NativeStagePricer::stage(std::int32_t begin, std::int32_t end, const StagePlace& place) {
  const std::vector<Option>& options = splits_.at(place.devices);
  CandidateStage best;
  best.end = end;
  best.devices = place.devices;
  best.split = options.front().split;
  double least = kInfinite;
  bool needs_memory = true;
  for (const Option& option : options) {
    const double time = price(begin, end, place, option, least);
    if (time >= least) continue;
    least = time;
    best.split = option.split;
    needs_memory = recompute_ > 0;
  }
  for (const Option& option : options) {
    if (!option.switches || !needs_memory) continue;
    const Switched& with = switched(begin, end, place, option);
    if (with.time >= least) continue;
    least = with.time;
    best = with.stage;
  }
  return best;
}

}  // namespace trimtab::tuner
