#include "tuning/launch/step_assembly.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kOpenSteps = 64;
constexpr int kNamedRanks = 8;

// The mean of the values that ranks have.
class Mean {
 public:
  void add(double value) {
    if (!std::isfinite(value) || value == 0) return;
    sum_ += value;
    ++count_;
  }
  [[nodiscard]] double value() const { return count_ > 0 ? sum_ / count_ : 0; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

JobStep whole(std::int64_t number, const std::map<std::int32_t, RankStep>& ranks) {
  JobStep step;
  step.step = number;
  step.epoch = ranks.begin()->second.epoch;
  Mean losses;
  Mean norms;
  for (const auto& [rank, part] : ranks) {
    if (part.epoch != step.epoch) step.epoch = 0;
    step.wall_ms = std::max(step.wall_ms, part.wall_ms);
    if (step.samples.empty()) step.samples = part.samples;
    if (step.not_finite.empty()) step.not_finite = part.not_finite;
    losses.add(part.loss);
    norms.add(part.gradient_norm);
  }
  step.loss = losses.value();
  step.gradient_norm = norms.value();
  return step;
}

}  // namespace

std::optional<JobStep> StepAssembly::add(std::int32_t rank, const RankStep& step) {
  if (rank < 0 || rank >= world_size_) return std::nullopt;
  auto& [ranks, prepared] = open_[step.step];
  ranks[rank] = step;
  prepared |= prepared_more(rank, step.preparations);
  if (std::cmp_greater_equal(ranks.size(), expected_)) {
    JobStep done = whole(step.step, ranks);
    done.prepared = prepared;
    open_.erase(step.step);
    return done;
  }
  if (open_.size() > kOpenSteps) open_.erase(open_.begin());
  return std::nullopt;
}

// A process that was started anew counts from 0 again.
bool StepAssembly::prepared_more(std::int32_t rank, std::int64_t preparations) {
  const std::int64_t before = std::exchange(preparations_[rank], preparations);
  return preparations != before && preparations > 0;
}

std::string StepAssembly::missing_ranks() const {
  if (open_.empty()) return "";
  std::string text;
  int named = 0;
  for (std::int32_t rank = 0; rank < world_size_; ++rank) {
    if (open_.begin()->second.ranks.contains(rank)) continue;
    if (named == kNamedRanks) return text + " and others";
    text += (named++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

}  // namespace trimtab::coordinator
