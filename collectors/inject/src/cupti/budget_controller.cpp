#include "budget_controller.hpp"

#include <algorithm>

namespace trimtab::inject::cupti {

namespace {

constexpr double kMargin = 0.9;        // of the share is what a duty is planned for
constexpr double kRaiseMargin = 0.75;  // of the share is what the higher level must be predicted to need
constexpr double kSmoothing = 0.3;
constexpr double kLeastRecorded = 0.05;  // seconds of recording that make a rate

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

void BudgetController::earn(const BudgetSample& sample, double elapsed) {
  const double cost = seconds(sample.cost_ns - last_.cost_ns);
  const double recorded = seconds(sample.recording_ns - last_.recording_ns);
  last_share_ = cost / elapsed;
  credit_ = std::clamp(credit_ + options_.share * elapsed - cost, -options_.share * kDebtSeconds, saved());
  unrated_cost_ += cost;
  unrated_recorded_ += recorded;
  if (unrated_recorded_ >= kLeastRecorded) rate(unrated_cost_ / unrated_recorded_);
}

void BudgetController::rate(double measured) {
  rate_ = rated_ ? rate_ + kSmoothing * (measured - rate_) : measured;
  rated_ = true;
  unrated_cost_ = 0;
  unrated_recorded_ = 0;
}

void BudgetController::forget_rate() {
  rate_ = 0;
  rated_ = false;
  unrated_cost_ = 0;
  unrated_recorded_ = 0;
}

void BudgetController::note_pressure(const BudgetSample& sample) {
  overflows_ = sample.ring_drops > last_.ring_drops ? overflows_ + 1 : 0;
  if (overflows_ > 0 && level_ == record::kDetailSampled) pressure_ = std::max(pressure_ / 2, kLeastDuty);
  if (overflows_ == 0) pressure_ = std::min(pressure_ * 1.1, 1.0);
}

double BudgetController::affordable_duty() const {
  const double by_cost = rate_ == 0 ? kMostDuty : kMargin * options_.share / rate_;
  return std::min(by_cost, kMostDuty) * pressure_;
}

record::Detail BudgetController::wanted_sampled() const {
  const bool predicted = rated_ && rate_ <= kRaiseMargin * options_.share && pressure_ == 1.0;
  if (predicted && credit_ >= saved() / 2 && now_ns_ - changed_ns_ >= hold_ns_) return record::kDetailAll;
  const bool too_dear = rate_ != 0 && kMargin * options_.share / rate_ < kLeastDuty;
  return too_dear || credit_ < -saved() / 2 ? record::kDetailCollectives : record::kDetailSampled;
}

record::Detail BudgetController::wanted() const {
  const bool may_rise = credit_ >= saved() / 2 && now_ns_ - changed_ns_ >= hold_ns_;
  switch (level_) {
    case record::kDetailAll:
      return credit_ < 0 || overflows_ >= 2 ? record::kDetailSampled : record::kDetailAll;
    case record::kDetailSampled:
      return wanted_sampled();
    case record::kDetailCollectives:
      if (credit_ < 0 && last_share_ > options_.share && now_ns_ - changed_ns_ >= 10 * options_.period_ns) {
        return record::kDetailOff;
      }
      return may_rise ? record::kDetailSampled : record::kDetailCollectives;
    case record::kDetailOff:
      break;
  }
  return may_rise ? record::kDetailCollectives : record::kDetailOff;
}

void BudgetController::change(record::Detail level, std::uint64_t now_ns) {
  const bool rises = level > level_;
  if (!rises && raised_ns_ != 0 && now_ns - raised_ns_ < 2 * hold_ns_) {
    hold_ns_ = std::min(2 * hold_ns_, options_.longest_hold_ns);  // it did not last
  } else if (rises && raised_ns_ != 0 && now_ns - raised_ns_ > 4 * hold_ns_) {
    hold_ns_ = std::max(hold_ns_ / 2, options_.hold_ns);
  }
  if (rises) raised_ns_ = now_ns;
  // What kernels cost may have changed since: the next look at them decides.
  if (rises && level == record::kDetailSampled) forget_rate();
  level_ = level;
  changed_ns_ = now_ns;
}

bool BudgetController::update(const BudgetSample& sample) {
  if (!started_) {
    started_ = true;
    last_.now_ns = sample.now_ns;  // what starting has cost counts
    changed_ns_ = sample.now_ns;
    credit_ = saved();
    return false;
  }
  if (sample.now_ns - last_.now_ns < options_.period_ns) return false;
  now_ns_ = sample.now_ns;
  earn(sample, seconds(sample.now_ns - last_.now_ns));
  note_pressure(sample);
  last_ = sample;
  const record::Detail level = wanted();
  const bool changed = level != level_;
  if (changed) change(level, sample.now_ns);
  const double before = duty_;
  duty_ = rated_ ? std::clamp(affordable_duty(), kLeastDuty, kMostDuty) : kLeastDuty;
  return changed || duty_ != before;
}

bool StepSampler::update(double duty, std::uint64_t now_ns, std::uint64_t steps) {
  if (!started_) {
    started_ = true;
    recording_ = false;
    until_ns_ = now_ns;
  }
  if (recording_) {
    const bool whole = steps - first_step_ >= options_.steps;
    if (steps != first_step_ && !whole && now_ns < until_ns_) {
      until_ns_ = began_ns_ + options_.longest_phase_ns;  // there are steps: wait for a whole one
    }
    if (!whole && now_ns < until_ns_) return true;
    recording_ = false;
    const auto lasted = static_cast<double>(now_ns - began_ns_);
    until_ns_ = now_ns + static_cast<std::uint64_t>(lasted * (1 / duty - 1));
    return false;
  }
  if (now_ns < until_ns_) return false;
  recording_ = true;
  began_ns_ = now_ns;
  first_step_ = steps;
  until_ns_ = now_ns + (steps == 0 ? options_.slice_ns : options_.longest_phase_ns);
  return true;
}

}  // namespace trimtab::inject::cupti
