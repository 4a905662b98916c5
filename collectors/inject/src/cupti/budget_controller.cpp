#include "budget_controller.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::inject::cupti {

namespace {

constexpr double kPlanned = 0.85;        // of the share is what samples are planned for
constexpr double kRaised = 0.5;          // of the share is what all kernels must be known to need
constexpr double kKept = 0.75;           // of the share is what they may come to need
constexpr double kExceeded = 0.9;        // of the share: samples have cost more than was planned
constexpr double kNoticed = 0.05;        // of the share
constexpr double kSmoothing = 0.3;       // of rates that fall; one that rises counts at once
constexpr double kLeastRecorded = 0.02;  // seconds of recording that make a rate, if all their records have come
constexpr double kLongRecorded = 5;      // and if some have not
constexpr double kLongestOwed = 3;       // seconds of recording
constexpr std::uint64_t kRetryNs = 1'000'000'000;  // for a phase that did not fit

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::uint64_t nanoseconds(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1e9);
}

}  // namespace

void BudgetController::charge(const BudgetSample& sample) {
  const double cost = seconds(sample.cost_ns - last_.cost_ns);
  const double recorded = seconds(sample.recording_ns - last_.recording_ns);
  const double expected = recorded * rate();
  const double owed = owed_ + expected - cost;
  window_.add(sample.now_ns, nanoseconds(expected + std::max(0.0, -owed)));
  owed_ = std::clamp(owed, 0.0, rate() * kLongestOwed);
  if (sample.settled) window_.refund(sample.now_ns, nanoseconds(std::exchange(owed_, 0.0)));
  note_rate(sample, cost, recorded);
}

void BudgetController::note_rate(const BudgetSample& sample, double cost, double recorded) {
  unrated_cost_ += cost;
  unrated_recorded_ += recorded;
  if (unrated_recorded_ < (sample.settled ? kLeastRecorded : kLongRecorded)) {
    if (sample.settled && unrated_recorded_ == 0) unrated_cost_ = 0;  // of collectives, and of looking around
    return;
  }
  const double measured = unrated_cost_ / unrated_recorded_;
  const bool silent = sample.kernels == std::exchange(unrated_since_, sample.kernels);
  unrated_cost_ = 0;
  unrated_recorded_ = 0;
  if (silent) return;  // the job did not run: that says nothing of when it does
  rate_ = rated_ && measured < rate_ ? rate_ + kSmoothing * (measured - rate_) : measured;
  rated_ = true;
}

void BudgetController::note_pressure(const BudgetSample& sample) {
  overflows_ = sample.ring_drops > last_.ring_drops ? overflows_ + 1 : 0;
  if (overflows_ > 0 && level_ == record::kDetailSampled) pressure_ = std::max(pressure_ / 2, kLeastPressure);
  if (overflows_ == 0) pressure_ = std::min(pressure_ * (1 + 0.1 * seconds(sample.now_ns - last_.now_ns)), 1.0);
}

double BudgetController::duty() const {
  if (unlimited()) return 1;
  const double by_cost = rate() == 0 ? kMostDuty : kPlanned * options_.share / rate();
  return std::clamp(std::min(by_cost, kMostDuty) * pressure_, 1e-6, kMostDuty);
}

double BudgetController::used() const {
  const double whole = options_.share * seconds(CostWindow::kWindowNs);
  return whole > 0 ? seconds(spent_ns_) / whole : 2;
}

double BudgetController::used_since_change() const {
  return seconds(last_.cost_ns - changed_cost_ns_) / (options_.share * seconds(CostWindow::kWindowNs));
}

std::uint64_t BudgetController::allowance_ns(double used) const {
  if (unlimited()) return ~std::uint64_t{0};
  const double left = (kPlanned - used) * options_.share * seconds(CostWindow::kWindowNs);
  if (left <= 0) return 0;
  return rate() == 0 ? CostWindow::kWindowNs : nanoseconds(std::min(left / rate(), seconds(CostWindow::kWindowNs)));
}

bool BudgetController::may_rise() const {
  return used() < kPlanned && last_.now_ns - changed_ns_ >= hold_ns_;
}

record::Detail BudgetController::wanted() const {
  if (unlimited()) return record::kDetailAll;
  switch (level_) {
    case record::kDetailAll:
      return used() > kPlanned || rate_ > kKept * options_.share || overflows_ >= 2 ? record::kDetailSampled : level_;
    case record::kDetailSampled:
      if (rated_ && rate_ <= kRaised * options_.share && pressure_ == 1.0 && may_rise()) return record::kDetailAll;
      return used() > kExceeded ? record::kDetailCollectives : level_;
    case record::kDetailCollectives:
      // Samples are over: what is still spent is collectives'.
      if (used() > kPlanned && used_since_change() > kNoticed) return record::kDetailOff;
      return may_rise() ? record::kDetailSampled : level_;
    case record::kDetailOff:
      break;
  }
  return may_rise() ? record::kDetailCollectives : record::kDetailOff;
}

void BudgetController::change(record::Detail level) {
  const std::uint64_t now_ns = last_.now_ns;
  const bool rises = level > level_;
  if (!rises && raised_ns_ != 0 && now_ns - raised_ns_ < 2 * hold_ns_) {
    hold_ns_ = std::min(2 * hold_ns_, options_.longest_hold_ns);  // it did not last
  } else if (rises && raised_ns_ != 0 && now_ns - raised_ns_ > 4 * hold_ns_) {
    hold_ns_ = std::max(hold_ns_ / 2, options_.hold_ns);
  }
  if (rises) raised_ns_ = now_ns;
  level_ = level;
  changed_ns_ = now_ns;
  changed_cost_ns_ = last_.cost_ns;
}

void BudgetController::update(const BudgetSample& sample) {
  if (!started_) {
    started_ = true;
    last_.now_ns = sample.now_ns;  // what starting has cost counts
    changed_ns_ = sample.now_ns;
  }
  charge(sample);
  note_pressure(sample);
  last_ = sample;
  spent_ns_ = window_.spent_ns(sample.now_ns);
  if (const record::Detail level = wanted(); level != level_) change(level);
}

// A phase that records. `until_ns_`: when it ends at the latest, by what is known.
bool StepSampler::goes_on(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps) {
  const std::uint64_t ended = steps - first_step_;
  if (ended >= options_.steps && now_ns >= began_ns_ + part_ns(limits)) return false;
  // There are steps: it waits for a whole one.
  const std::uint64_t end_ns = began_ns_ + (ended == 0               ? longest_ns_
                                            : ended < options_.steps ? options_.longest_phase_ns
                                                                     : part_ns(limits));
  until_ns_ = std::min(end_ns, limits.allowed_ns > ~now_ns ? ~std::uint64_t{0} : now_ns + limits.allowed_ns);
  return now_ns < until_ns_;
}

// Recording begins somewhere in a step, and ends with the second step's end.
std::uint64_t StepSampler::needed_ns(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps) {
  const std::uint64_t ended = steps - idle_steps_;
  const std::uint64_t needed = ended == 0 ? 0 : options_.steps * ((now_ns - idle_since_ns_) / ended);
  return needed > limits.whole_ns ? options_.least_phase_ns : std::max(needed, options_.least_phase_ns);
}

bool StepSampler::update(const PhaseLimits& limits, std::uint64_t now_ns, std::uint64_t steps) {
  if (!started_) {
    started_ = true;
    recording_ = false;
    idle_since_ns_ = until_ns_ = now_ns;
    idle_steps_ = steps;
  }
  if (recording_) {
    if (goes_on(limits, now_ns, steps)) return true;
    recording_ = false;
    const auto lasted = static_cast<double>(now_ns - began_ns_);
    until_ns_ = now_ns + static_cast<std::uint64_t>(lasted * (1 / limits.duty - 1));
    idle_since_ns_ = now_ns;
    idle_steps_ = steps;
    return false;
  }
  if (now_ns < until_ns_) return false;
  if (limits.allowed_ns < needed_ns(limits, now_ns, steps)) {
    until_ns_ = now_ns + kRetryNs;
    return false;
  }
  recording_ = true;
  began_ns_ = now_ns;
  first_step_ = steps;
  longest_ns_ = steps == 0 ? std::max(part_ns(limits), options_.least_phase_ns) : options_.longest_phase_ns;
  until_ns_ = now_ns + std::min(limits.allowed_ns, longest_ns_);
  return true;
}

}  // namespace trimtab::inject::cupti
