#include "tuning/clock_check.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "tuning/comparison.hpp"

namespace trimtab::coordinator {
namespace {

const double kDisagreement = std::log(1.5);  // of the two plans' shares of time told
constexpr double kJitterMs = 250;            // by which messages may come later or earlier, over a trial
constexpr double kLeastShare = 1e-6;

}  // namespace

void ClockCheck::add(bool second, bool counts, Nanoseconds arrived, double told_ms) {
  if (known_ && counts && told_ms > 0) {
    Side& side = sides_[second ? 1 : 0];
    const double passed_ms = std::chrono::duration<double, std::milli>(arrived - last_).count();
    side.told_ms += told_ms;
    side.passed_ms += passed_ms;
    side.shares.push_back(passed_ms / told_ms);
  }
  last_ = arrived;
  known_ = true;
}

std::string ClockCheck::contradiction() const {
  const auto& [first, second] = sides_;
  if (first.shares.empty() || second.shares.empty()) return "";
  const double share = first.passed_ms / first.told_ms;
  const auto apart = [](double a, double b) { return std::log(std::max(a, kLeastShare) / std::max(b, kLeastShare)); };
  const double of_sums = apart(second.passed_ms / second.told_ms, share);
  const double of_medians = apart(median(second.shares), median(first.shares));
  const double off_ms = std::abs(second.passed_ms - second.told_ms * share);
  const bool both = std::min(std::abs(of_sums), std::abs(of_medians)) > kDisagreement && of_sums * of_medians > 0;
  if (!both || off_ms <= kJitterMs) return "";
  return "its steps are told to have taken " + format_ms(second.told_ms) + " and took " + format_ms(second.passed_ms) +
         " here; the incumbent's, " + format_ms(first.told_ms) + " and " + format_ms(first.passed_ms) +
         ": a clock of the ranks is wrong";
}

}  // namespace trimtab::coordinator
