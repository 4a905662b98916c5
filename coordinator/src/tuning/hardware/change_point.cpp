#include "tuning/hardware/change_point.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kFewBlocks = 6;      // a short reference shows less scatter than there is: four blocks half
constexpr double kLeastSigma = 0.01;  // of a block's median: a few blocks may scatter less by luck
// That one block may add: what lasts three blocks, as a checkpoint, is no change.
constexpr double kMostOfThreshold = 0.26;
constexpr std::size_t kMostBlocks = 64;  // kept
constexpr double kNormal95 = 1.96;
constexpr double kOfMedian = 1.2533;  // a median's standard error beside a mean's

}  // namespace

std::optional<StepChange> ChangePoint::add(std::int64_t step, double wall_ms) {
  if (steps_.empty()) block_begin_ = step;
  steps_.push_back(wall_ms);
  if (std::cmp_less(steps_.size(), rules_.block)) return std::nullopt;
  const Block block{block_begin_, std::log(std::max(median(steps_), 1e-9))};
  steps_.clear();
  if (std::cmp_less(reference_.size(), rules_.first_blocks)) {
    reference_.push_back(block);
    if (std::cmp_equal(reference_.size(), rules_.first_blocks)) learn();
    return std::nullopt;
  }
  if (least_ == 0 && most_ == 0) return take(block);
  of_plan_.push_back(block);
  return std::cmp_less(of_plan_.size(), rules_.first_blocks) ? std::nullopt : settle();
}

std::optional<StepChange> ChangePoint::take(const Block& block) {
  if (since_.size() >= kMostBlocks) {
    since_.erase(since_.begin());
    slower_from_ -= std::min<std::size_t>(slower_from_, 1);
    faster_from_ -= std::min<std::size_t>(faster_from_, 1);
  }
  since_.push_back(block);
  auto change = judge();
  if (!change && slower_ == 0 && faster_ == 0) join_reference();
  return change;
}

// Steps that have said nothing yet were another plan's.
void ChangePoint::change_plan(double ratio, double low, double high) {
  steps_.clear();
  of_plan_.clear();
  if (std::cmp_less(reference_.size(), rules_.first_blocks)) return reference_.clear();
  shift(std::log(ratio));
  least_ += std::log(low / ratio);
  most_ += std::log(high / ratio);
}

void ChangePoint::shift(double by) {
  for (Block& one : reference_) one.log_median += by;
  for (Block& one : since_) one.log_median += by;
  level_ += by;
}

// What the plan may well take without any change of the machine is no change; what lies beyond is one from there.
std::optional<StepChange> ChangePoint::settle() {
  std::vector<double> values;
  for (const Block& one : of_plan_) values.push_back(one.log_median);
  const double known = (most_ - least_) / (2 * kNormal95);
  const double seen = kOfMedian * sigma_ / std::sqrt(static_cast<double>(values.size()));
  const double off = (median(values) - level_) / (1 + seen * seen / (known * known));
  shift(std::clamp(off, least_, most_));
  least_ = most_ = 0;
  std::optional<StepChange> change;
  for (const Block& one : std::exchange(of_plan_, {})) {
    change = take(one);
    if (change) break;
  }
  return change;
}

// What lies at the level now says more of it, as long as the reference is short.
void ChangePoint::join_reference() {
  if (std::cmp_greater_equal(reference_.size(), rules_.reference_blocks)) return;
  reference_.insert(reference_.end(), since_.begin(), since_.end());
  since_.clear();
  slower_from_ = faster_from_ = 0;
  learn();
}

// The median and the median absolute deviation of the reference, which a single odd block does not move.
void ChangePoint::learn() {
  std::vector<double> values;
  for (const Block& one : reference_) values.push_back(one.log_median);
  level_ = median(values);
  for (double& value : values) value = std::abs(value - level_);
  const double few = 1 + kFewBlocks * (1.0 / static_cast<double>(values.size()) - 1.0 / rules_.reference_blocks);
  sigma_ = std::max(1.4826 * median(values), kLeastSigma) * few;
}

std::optional<StepChange> ChangePoint::judge() {
  const double slack = std::log1p(rules_.least_shift) / 2 / sigma_ + 0.5;
  const double off = (since_.back().log_median - level_) / sigma_;
  const double most = kMostOfThreshold * rules_.threshold;
  slower_ = std::max(0.0, slower_ + std::min(off - slack, most));
  faster_ = std::max(0.0, faster_ + std::min(-off - slack, most));
  if (slower_ == 0) slower_from_ = since_.size();
  if (faster_ == 0) faster_from_ = since_.size();
  slower_ = std::min(slower_, 2 * rules_.threshold);
  faster_ = std::min(faster_, 2 * rules_.threshold);
  if (slower_ > rules_.threshold) return if_large(change_since(slower_from_));
  if (faster_ > rules_.threshold) return if_large(change_since(faster_from_));
  return std::nullopt;
}

// The reference's own level is only so well known: a small step off it is no change, however often it is seen.
std::optional<StepChange> ChangePoint::if_large(StepChange change) const {
  if (std::abs(std::log(change.ratio())) < std::log1p(rules_.least_shift)) return std::nullopt;
  return change;
}

StepChange ChangePoint::change_since(std::size_t first) const {
  std::vector<double> after;
  for (std::size_t i = first; i < since_.size(); ++i) after.push_back(since_[i].log_median);
  return {std::exp(level_), std::exp(median(after)), since_[first].begin};
}

}  // namespace trimtab::coordinator
