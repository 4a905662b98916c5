#include "tuning/trial/clock_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/numbers.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/racing.hpp"

namespace trimtab::coordinator {
namespace {

const double kDisagreement = std::log(1.5);        // of the two plans' shares of time told: always too much
constexpr double kJitterMs = 250;                  // by which messages may come later or earlier, over a trial
const double kLeastDisagreement = std::log(1.05);  // what is less is not looked at, however sure
constexpr double kLeastJitterMs = 100;
constexpr double kLeastShare = 1e-6;
constexpr std::size_t kFewestSteps = 6;  // of both plans
constexpr int kTests = 4;                // all of which must agree
constexpr double kFalseAlarms = 0.0005;  // of each
constexpr double kPriorDegrees = 4;      // weight of what the steps within blocks say
constexpr double kInflation = 2;         // of variance: blocks share what single steps do not

using Values = std::vector<double>;

double apart(double a, double b) {
  return std::log(std::max(a, kLeastShare) / std::max(b, kLeastShare));
}

double mean(const Values& values) {
  double sum = 0;
  for (const double one : values) sum += one;
  return sum / static_cast<double>(values.size());
}

double squares(const Values& values) {
  const double center = mean(values);
  double sum = 0;
  for (const double one : values) sum += (one - center) * (one - center);
  return sum;
}

using Block = std::vector<ArrivedStep>;
using Number = double (*)(const ArrivedStep&);
using OfBlock = double (*)(const Block&, Number);

double gap(const ArrivedStep& step) {
  return step.passed_ms - step.told_ms;
}

double log_share(const ArrivedStep& step) {
  return apart(step.passed_ms, step.told_ms);
}

double of_sum(const Block& block, Number number) {
  ArrivedStep average;
  for (const ArrivedStep& one : block) {
    average.told_ms += one.told_ms / static_cast<double>(block.size());
    average.passed_ms += one.passed_ms / static_cast<double>(block.size());
  }
  return number(average);
}

double of_middle(const Block& block, Number number) {
  Values values;
  for (const ArrivedStep& one : block) values.push_back(number(one));
  return median(values);
}

// A number of each block, and the same of each step.
struct Series {
  Values of_blocks;
  Values of_steps;
};

Series series(const std::vector<Block>& blocks, Number number, OfBlock of_block) {
  Series all;
  for (const Block& block : blocks) {
    all.of_blocks.push_back(of_block(block, number));
    for (const ArrivedStep& one : block) all.of_steps.push_back(number(one));
  }
  return all;
}

// By how much the second may be off from the first by chance. All blocks share one variance: what they show, together
// with what the steps within them make likely, which counts as some blocks more.
double reach(const Series& first, const Series& second) {
  const auto blocks = static_cast<double>(first.of_blocks.size() + second.of_blocks.size());
  const auto steps = static_cast<double>(first.of_steps.size() + second.of_steps.size());
  const double of_step = (squares(first.of_steps) + squares(second.of_steps)) / (steps - 2);
  const double likely = kInflation * of_step * blocks / steps;
  const double degrees = blocks - 2 + kPriorDegrees;
  const double variance = (squares(first.of_blocks) + squares(second.of_blocks) + kPriorDegrees * likely) / degrees;
  const double of_means =
      1 / static_cast<double>(first.of_blocks.size()) + 1 / static_cast<double>(second.of_blocks.size());
  return student_quantile(1 - kFalseAlarms, degrees) * std::sqrt(variance * of_means);
}

// 1: the second is surely more, -1: less, 0: neither.
int sign_of_difference(const Series& first, const Series& second) {
  if (first.of_steps.size() + second.of_steps.size() < kFewestSteps) return 0;
  const double difference = mean(second.of_blocks) - mean(first.of_blocks);
  if (std::abs(difference) <= reach(first, second)) return 0;
  return difference > 0 ? 1 : -1;
}

}  // namespace

void ClockCheck::add(bool second, bool counts, Nanoseconds arrived, double told_ms) {
  if (known_ && counts && told_ms > 0) {
    Side& side = sides_[second ? 1 : 0];
    const double passed_ms = std::chrono::duration<double, std::milli>(arrived - last_).count();
    side.told_ms += told_ms;
    side.passed_ms += passed_ms;
    side.shares.push_back(passed_ms / told_ms);
    if (begins_block_ || side.blocks.empty()) side.blocks.emplace_back();
    begins_block_ = false;
    side.blocks.back().push_back({told_ms, passed_ms});
  }
  last_ = arrived;
  known_ = true;
}

bool ClockCheck::grossly_apart() const {
  const auto& [first, second] = sides_;
  const double share = first.passed_ms / first.told_ms;
  const double of_sums = apart(second.passed_ms / second.told_ms, share);
  const double of_medians = apart(median(second.shares), median(first.shares));
  const double off_ms = std::abs(second.passed_ms - second.told_ms * share);
  const bool both = std::min(std::abs(of_sums), std::abs(of_medians)) > kDisagreement && of_sums * of_medians > 0;
  return both && off_ms > kJitterMs;
}

// By the time between steps and by the share of time told, each by the sums and by the medians of blocks.
bool ClockCheck::surely_apart() const {
  const auto& [first, second] = sides_;
  int signs = 0;
  for (const Number number : {gap, log_share}) {
    for (const OfBlock of_block : {of_sum, of_middle}) {
      signs += sign_of_difference(series(first.blocks, number, of_block), series(second.blocks, number, of_block));
    }
  }
  if (std::abs(signs) < kTests) return false;
  const double by_share_ms = second.told_ms * first.passed_ms / first.told_ms;
  const double by_gap_ms = second.told_ms + (first.passed_ms - first.told_ms) *
                                                static_cast<double>(second.shares.size()) /
                                                static_cast<double>(first.shares.size());
  const double expected_ms = signs > 0 ? std::max(by_share_ms, by_gap_ms) : std::min(by_share_ms, by_gap_ms);
  return std::abs(second.passed_ms - expected_ms) > kLeastJitterMs &&
         std::abs(apart(second.passed_ms, expected_ms)) > kLeastDisagreement;
}

std::string ClockCheck::contradiction() const {
  const auto& [first, second] = sides_;
  if (first.shares.empty() || second.shares.empty()) return "";
  if (!grossly_apart() && !surely_apart()) return "";
  return "its steps are told to have taken " + format_ms(second.told_ms) + " and took " + format_ms(second.passed_ms) +
         " here; the incumbent's, " + format_ms(first.told_ms) + " and " + format_ms(first.passed_ms) +
         ": a clock of the ranks is wrong";
}

}  // namespace trimtab::coordinator
