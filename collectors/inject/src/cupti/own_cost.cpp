#include "own_cost.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::inject::cupti {

namespace {

constexpr std::uint64_t kLeastPhases = 8;  // before anything is believed
// Switching the kinds on and off, and CUPTI's own work on what it has, reach a little beyond the phase.
constexpr std::uint64_t kReachNs = 2'000'000;
constexpr std::uint64_t kPatienceNs = 10'000'000'000;  // for clean steps after a phase

struct Bounds {
  double low = 0;
  double high = 0;
};

// Of the median, 95 %: the values in order that lie so far from the ends that fewer than 2.5 % of fair coins do.
Bounds median_bounds(const double* sorted, std::uint64_t count) {
  double term = 1;  // of the binomial, times 2^count
  double all = 1;
  for (std::uint64_t i = 0; i < count; ++i) all *= 2;
  double below = 0;
  std::uint64_t skipped = 0;
  for (std::uint64_t i = 0; i < count / 2; ++i) {
    below += term;
    if (below > 0.025 * all) break;
    skipped = i;
    term *= static_cast<double>(count - i) / static_cast<double>(i + 1);
  }
  return {sorted[skipped], sorted[count - 1 - skipped]};
}

}  // namespace

void OwnCost::step_ended(std::uint64_t now_ns) {
  if (last_end_ns_ != 0 && now_ns > last_end_ns_) steps_[ended_++ % kSteps] = {last_end_ns_, now_ns};
  last_end_ns_ = now_ns;
  judge();
}

void OwnCost::phase_ended(std::uint64_t end_ns) {
  if (open_since_ns_ == 0) return;
  phases_[begun_++ % kPhases] = {std::exchange(open_since_ns_, 0), end_ns};
  if (begun_ - judged_ > kPhases / 2) ++judged_;  // no steps come: the oldest is given up
}

void OwnCost::phase_cost(std::uint64_t base_ns) {
  if (begun_ == 0) return;
  Phase& latest = phases_[(begun_ - 1) % kPhases];
  if (latest.told) return;
  latest.base_ns = base_ns;
  latest.told = true;
  judge();
}

void OwnCost::judge() {
  while (judged_ < begun_ && judge(phases_[judged_ % kPhases])) ++judged_;
}

// A step that no remembered phase touches.
bool OwnCost::is_clean(const Step& step) const {
  if (open_since_ns_ != 0 && open_since_ns_ < step.end_ns + kReachNs) return false;
  const std::uint64_t first = begun_ > kPhases ? begun_ - kPhases : 0;
  for (std::uint64_t i = first; i < begun_; ++i) {
    const Phase& phase = phases_[i % kPhases];
    if (step.begin_ns < phase.end_ns + kReachNs && phase.begin_ns < step.end_ns + kReachNs) return false;
  }
  return true;
}

// False where steps after the phase are still to come.
bool OwnCost::judge(const Phase& phase) {
  if (!phase.told) return false;
  const std::uint64_t first = ended_ > kSteps ? ended_ - kSteps : 0;
  std::array<std::uint64_t, 2 * kBeside> beside{};
  int before = 0;
  int after = 0;
  std::uint64_t touched = 0;
  std::uint64_t touched_ns = 0;
  for (std::uint64_t i = first; i < ended_ && after < kBeside; ++i) {
    const Step& step = steps_[i % kSteps];
    const std::uint64_t length_ns = step.end_ns - step.begin_ns;
    if (step.begin_ns >= phase.end_ns + kReachNs) {
      if (is_clean(step)) beside[kBeside + after++] = length_ns;
    } else if (step.end_ns + kReachNs <= phase.begin_ns) {
      if (is_clean(step)) beside[before++ % kBeside] = length_ns;  // the latest four
    } else {
      ++touched;
      touched_ns += length_ns;
    }
  }
  const bool over = last_end_ns_ > phase.end_ns + kPatienceNs;
  if (after < kBeside && !over) return false;
  before = std::min(before, kBeside);
  if (before < 2 || after < 2 || touched == 0 || phase.base_ns == 0) return true;
  std::copy(beside.begin() + kBeside, beside.begin() + kBeside + after, beside.begin() + before);
  const auto count = static_cast<std::uint64_t>(before + after);
  std::sort(beside.begin(), beside.begin() + static_cast<std::ptrdiff_t>(count));
  const double usual = (static_cast<double>(beside[(count - 1) / 2]) + static_cast<double>(beside[count / 2])) / 2;
  learn((static_cast<double>(touched_ns) - static_cast<double>(touched) * usual) / static_cast<double>(phase.base_ns));
  return true;
}

void OwnCost::learn(double ratio) {
  ratios_[told_++ % kRatios] = ratio;
  const std::uint64_t count = std::min<std::uint64_t>(told_, kRatios);
  if (count < kLeastPhases) return;
  std::array<double, kRatios> sorted = ratios_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  const Bounds bounds = median_bounds(sorted.data(), count);
  if (bounds.high < factor_ || bounds.low > factor_) {
    factor_ = std::clamp(bounds.high, kLeast, kMost);
  }
}

}  // namespace trimtab::inject::cupti
