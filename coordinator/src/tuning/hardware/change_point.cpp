#include "tuning/hardware/change_point.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kFewBlocks = 6;      // a short reference shows less scatter than there is: four blocks half
constexpr double kLeastSigma = 0.01;  // of a block's median: a few blocks may scatter less by luck
// That one block may add: what lasts three blocks, as a checkpoint, is no change.
constexpr double kMostOfThreshold = 0.26;
constexpr std::size_t kMostBlocks = 256;  // kept
constexpr double kBlocksOfLasting = 16;   // at most: blocks grow with the time that a change must last
constexpr double kMostAlarms = 0.01;      // of jobs: in which a stretch of other work is taken for a change
constexpr double kStretchesBefore = 4;    // that count as seen before the job, each for a quarter of the least time
constexpr double kAway = 4;               // times as long as it is there is other work away, at most
constexpr double kMostTimesLeast = 5;     // of the least time: no machine makes a job wait longer
constexpr std::size_t kLeastBlocks = 6;   // that a change has lasted for, however long they are
constexpr double kBack = 1.0 / 3;         // of a change: a block that is nearer to the former level is back at it
constexpr double kWanders = 0.03;       // of a level: a standard deviation that is taken for granted before any is seen
constexpr double kSpansBefore = 32;     // and counts as so many spans
constexpr double kBeyondWandering = 4;  // standard deviations
constexpr double kQuartile = 1.1503;    // of absolute normal values: the upper one, in standard deviations
constexpr double kTimesWandering = 10;  // of the least time: what stays as long is a change however small
constexpr std::size_t kMostSpans = 256;  // kept
constexpr double kNormal95 = 1.96;
constexpr double kOfMedian = 1.2533;  // a median's standard error beside a mean's

double log_of(double ms) {
  return std::log(std::max(ms, 1e-9));
}

double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::optional<StepChange> ChangePoint::add(std::int64_t step, double wall_ms) {
  if (steps_.empty()) block_begin_ = step;
  steps_.push_back(wall_ms);
  steps_ms_ += wall_ms;
  const bool is_long = steps_ms_ >= rules_.least_lasting_ms / kBlocksOfLasting;
  if (std::cmp_less(steps_.size(), rules_.block) || !is_long) return std::nullopt;
  const Block block{block_begin_, log_of(median(steps_)), log_of(lower_quartile(steps_)), std::exchange(steps_ms_, 0)};
  steps_.clear();
  note_span(block);
  if (!tells_level(reference_)) {
    reference_.push_back(block);
    if (tells_level(reference_)) learn();
    return std::nullopt;
  }
  if (least_ == 0 && most_ == 0) return take(block);
  of_plan_.push_back(block);
  return tells_level(of_plan_) ? settle() : std::nullopt;
}

bool ChangePoint::tells_level(const std::vector<Block>& blocks) const {
  double ms = 0;
  for (const Block& one : blocks) ms += one.ms;
  return std::cmp_greater_equal(blocks.size(), rules_.first_blocks) && ms >= rules_.least_lasting_ms;
}

std::optional<StepChange> ChangePoint::take(const Block& block) {
  if (since_.size() >= kMostBlocks) {
    since_.erase(since_.begin());
    slower_from_ -= std::min<std::size_t>(slower_from_, 1);
    faster_from_ -= std::min<std::size_t>(faster_from_, 1);
  }
  since_.push_back(block);
  note_stretch(block);
  auto change = judge();
  if (!change && slower_ == 0 && faster_ == 0) join_reference();
  return change;
}

// Steps that have said nothing yet were another plan's.
void ChangePoint::change_plan(double ratio, double low, double high) {
  steps_.clear();
  steps_ms_ = 0;
  of_plan_.clear();
  span_.clear();
  span_ms_ = 0;
  if (!tells_level(reference_)) return reference_.clear();
  shift(std::log(ratio));
  least_ += std::log(low / ratio);
  most_ += std::log(high / ratio);
}

void ChangePoint::shift(double by) {
  for (auto* const blocks : {&reference_, &since_}) {
    for (Block& one : *blocks) {
      one.log_median += by;
      one.log_low += by;
    }
  }
  for (Span& one : spans_) one.log_low += by;
  for (double& low : span_) low += by;
  level_ += by;
  low_level_ += by;
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
  std::vector<double> lows;
  for (const Block& one : reference_) lows.push_back(one.log_low);
  low_level_ = median(lows);
  for (double& value : values) value = std::abs(value - level_);
  const double missing = 1.0 / static_cast<double>(values.size()) - 1.0 / rules_.reference_blocks;
  const double few = 1 + kFewBlocks * std::max(missing, 0.0);
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
  if (slower_ > rules_.threshold) return if_lasting(slower_from_);
  if (faster_ > rules_.threshold) return if_lasting(faster_from_);
  return std::nullopt;
}

// Slower by half of the least change, and beyond what blocks scatter by: such stretches come and go.
void ChangePoint::note_stretch(const Block& block) {
  const double least = std::max(std::log1p(rules_.least_shift) / 2, 2 * sigma_);
  const bool was_slow = std::exchange(is_slow_, block.log_median - level_ > least);
  if (is_slow_) {
    if (was_slow) stretch_ms_ += block.ms;
    return;
  }
  calm_ms_ += block.ms;
  if (stretch_ms_ == 0) return;
  ++passed_;
  passed_ms_ += std::exchange(stretch_ms_, 0);
}

// Other work ends by chance, so its stretches are taken to be exponential, of a mean that nobody knows (a gamma prior
// of its inverse: as if kStretchesBefore had been seen). Then one is longer than t with probability (1 + t / all of
// their time) ^ -(how many). That may be a part of kMostAlarms: 1/2, 1/6, 1/12, ..., which add up to 1 over however
// many there are.
double ChangePoint::longest_stretch_ms() const {
  const double least = rules_.least_lasting_ms;
  const double may_be = kMostAlarms / ((passed_ + 1.0) * (passed_ + 2.0));
  const double longest = (least + passed_ms_) * (std::pow(may_be, -1 / (kStretchesBefore + passed_)) - 1);
  return std::clamp(longest, least, kMostTimesLeast * least);
}

// The first may be told sooner after a long calm: few jobs see both, the calm and as long a stretch.
double ChangePoint::wanted_ms() const {
  const double least = rules_.least_lasting_ms;
  const double calm = passed_ == 0 ? (least + calm_ms_) / kAway : 0;
  return std::max(longest_stretch_ms() - calm, least);
}

void ChangePoint::note_span(const Block& block) {
  if (rules_.least_lasting_ms <= 0) return;
  span_.push_back(block.log_low);
  span_ms_ += block.ms;
  if (span_ms_ < rules_.least_lasting_ms) return;
  if (spans_.size() >= kMostSpans) spans_.erase(spans_.begin());
  spans_.push_back({block.begin, lower_quartile(std::exchange(span_, {}))});
  span_ms_ = 0;
}

// How far spans that ended before this step lie apart, a standard deviation: by the upper quartile of their distances
// from their median, which a quarter of them, beside other work, does not move. Few spans say little of it.
double ChangePoint::wandering(std::int64_t before) const {
  std::vector<double> values;
  for (const Span& one : spans_) {
    if (one.end < before) values.push_back(one.log_low);
  }
  if (values.empty()) return kWanders;
  const double middle = median(values);
  for (double& value : values) value = -std::abs(value - middle);
  const double seen = -lower_quartile(values) / kQuartile;
  const auto spans = static_cast<double>(values.size());
  return std::sqrt((kSpansBefore * kWanders * kWanders + spans * seen * seen) / (kSpansBefore + spans));
}

// Both the former level and the present one have wandered.
bool ChangePoint::may_be_wandering(std::size_t from, double shift) const {
  double ms = 0;
  for (std::size_t i = from; i < since_.size(); ++i) ms += since_[i].ms;
  if (ms >= kTimesWandering * rules_.least_lasting_ms) return false;
  return std::abs(shift) < kBeyondWandering * std::numbers::sqrt2 * wandering(since_[from].begin);
}

// Slower for good: since then not even the fastest steps came back. Faster for good: they are most of the time, and
// before that they never were for longer than other work stays. It makes steps slower, and never faster than they are.
std::optional<StepChange> ChangePoint::if_lasting(std::size_t from) {
  const double wanted = wanted_ms();
  if (wanted <= 0) return if_large(change_since(from));
  std::size_t first = since_.size();
  double ms = 0;
  for (; first > from && (ms < wanted || since_.size() - first < kLeastBlocks); --first) ms += since_[first - 1].ms;
  if (ms < wanted || since_.size() - first < kLeastBlocks) return std::nullopt;
  const double shift = std::log(change_since(first).ratio());
  if (!stays_off(first, shift)) return std::nullopt;
  if (shift > 0 || was_never_as_fast(first, shift)) {
    return may_be_wandering(from, shift) ? std::nullopt : if_large(change_since(first));
  }
  // The level was learnt while something else ran.
  reference_.assign(since_.begin() + static_cast<std::ptrdiff_t>(first), since_.end());
  since_.clear();
  slower_ = faster_ = stretch_ms_ = calm_ms_ = 0;
  is_slow_ = false;
  slower_from_ = faster_from_ = 0;
  learn();
  return std::nullopt;
}

bool ChangePoint::stays_off(std::size_t first, double shift) const {
  if (shift == 0) return false;
  std::size_t back = 0;
  for (std::size_t i = first; i < since_.size(); ++i) {
    const double off = shift > 0 ? since_[i].log_low - low_level_ : since_[i].log_median - level_;
    back += off / shift < kBack ? 1 : 0;
  }
  return shift > 0 ? back == 0 : 2 * back < since_.size() - first;
}

bool ChangePoint::was_never_as_fast(std::size_t first, double shift) const {
  const double longest = longest_stretch_ms();
  bool never = false;
  double ms = 0;
  std::size_t blocks = 0;
  const auto pass = [&](const Block& one) {
    const bool as_fast = (one.log_low - level_) / shift > 1 - kBack;
    ms = as_fast ? 0 : ms + one.ms;
    blocks = as_fast ? 0 : blocks + 1;
    never = never || (ms >= longest && blocks >= kLeastBlocks);
  };
  std::ranges::for_each(reference_, pass);
  std::for_each(since_.begin(), since_.begin() + static_cast<std::ptrdiff_t>(first), pass);
  return never;
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
