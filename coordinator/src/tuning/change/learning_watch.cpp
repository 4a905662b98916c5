#include "tuning/change/learning_watch.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::coordinator {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  std::size_t steps = 0;
};

Range range_of(const std::vector<Learnt>& steps, double Learnt::*value) {
  Range range;
  for (const Learnt& one : steps) {
    if (one.*value == 0) continue;
    range.low = std::min(range.low, one.*value);
    range.high = std::max(range.high, one.*value);
    ++range.steps;
  }
  return range;
}

struct Question {
  const char* of;    // a key of LearningWatch::outside
  const char* name;  // for people
  double value;
  double bound;
  bool above;  // which side of the bound is outside
  std::size_t steps;
};

// Half the range above its end: a loss that hardly moves may be passed by rounding alone.
std::vector<Question> questions(const Learnt& step, const std::vector<Learnt>& before) {
  const Range losses = range_of(before, &Learnt::loss);
  const Range norms = range_of(before, &Learnt::gradient_norm);
  std::vector<Question> asked;
  if (step.loss != 0 && losses.steps >= LearningWatch::kHistoryLeast) {
    asked.push_back({"loss", "loss", step.loss, losses.high + (losses.high - losses.low) / 2, true, losses.steps});
  }
  if (step.gradient_norm != 0 && norms.steps >= LearningWatch::kHistoryLeast) {
    constexpr double kFactor = LearningWatch::kNormFactor;
    asked.push_back({"norm", "gradient norm", step.gradient_norm, norms.high * kFactor, true, norms.steps});
    asked.push_back({"small norm", "gradient norm", step.gradient_norm, norms.low / kFactor, false, norms.steps});
  }
  return asked;
}

}  // namespace

bool LearningWatch::runs(const std::string& hash, std::int64_t step) {
  if (hash == plan) return false;
  const bool first = plan.empty();
  const bool back = !plan_before.empty() && hash == plan_before;
  const std::string left_plan = std::exchange(plan, hash);
  since_step = step;
  outside.clear();
  left = first || back ? 0 : kWatched;
  plan_before = first || back ? "" : left_plan;
  sound = sound || back;
  if (back) {
    recent = before;
  } else {
    before = recent;
  }
  return true;
}

void LearningWatch::stop() {
  left = 0;
  plan_before.clear();
}

std::string LearningWatch::judge(const Learnt& step) {
  const bool watched = left > 0;
  if (watched) --left;
  // Where values were not finite under the plan before either, this one is not to blame.
  if (!step.not_finite.empty()) {
    const bool was_sound = std::exchange(sound, false);
    return watched && was_sound ? "the " + step.not_finite + " became no finite number under the new plan" : "";
  }
  sound = true;
  std::string why;
  for (const Question& one : watched ? questions(step, before) : std::vector<Question>()) {
    const bool is_outside = one.above ? one.value > one.bound : one.value < one.bound;
    std::int32_t& in_a_row = outside[one.of];
    in_a_row = is_outside ? in_a_row + 1 : 0;
    if (in_a_row < kConsecutive || !why.empty()) continue;
    why = "the " + std::string(one.name) + " of " + std::to_string(kConsecutive) +
          " steps in a row under the new plan was " + (one.above ? "above " : "below ") + format_number(one.bound) +
          ", last " + format_number(one.value) + ", unlike all " + std::to_string(one.steps) + " steps before it";
  }
  if (!why.empty()) return why;
  if (left == 0) stop();
  if (step.loss == 0 && step.gradient_norm == 0) return "";
  recent.push_back(step);
  if (recent.size() > kHistory) recent.erase(recent.begin());
  return "";
}

}  // namespace trimtab::coordinator
