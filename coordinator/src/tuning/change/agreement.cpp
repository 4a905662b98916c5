#include "tuning/change/agreement.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

Agreement::Agreement(std::uint64_t epoch, std::int32_t world_size, Nanoseconds deadline)
    : epoch_(epoch), world_size_(world_size), deadline_(deadline) {
  TRIMTAB_ASSERT(world_size > 0, "an agreement needs ranks");
}

Agreement::Outcome Agreement::acknowledge(std::int32_t rank, std::uint64_t epoch, std::int64_t step) {
  if (epoch != epoch_ || committed_ || rank < 0 || rank >= world_size_) return Outcome::kNothing;
  acknowledged_[rank] = step;
  return std::cmp_equal(acknowledged_.size(), world_size_) ? Outcome::kAllAcknowledged : Outcome::kNothing;
}

Agreement::Outcome Agreement::refuse(std::uint64_t epoch) {
  return epoch == epoch_ && !committed_ ? Outcome::kRefused : Outcome::kNothing;
}

Agreement::Outcome Agreement::activate(std::int32_t rank, std::uint64_t epoch, Nanoseconds switch_time,
                                       const ChangePhases& phases) {
  if (epoch != epoch_ || !committed_ || rank < 0 || rank >= world_size_) return Outcome::kNothing;
  if (switch_time >= switch_time_) {
    switch_time_ = switch_time;
    phases_ = phases;
  }
  const bool is_new = active_.insert(rank).second;
  return is_new && std::cmp_equal(active_.size(), world_size_) ? Outcome::kAllActive : Outcome::kNothing;
}

Agreement::Outcome Agreement::fail(std::uint64_t epoch) {
  return epoch == epoch_ ? Outcome::kFailed : Outcome::kNothing;
}

std::int64_t Agreement::commit_step(std::int64_t latest_step) const {
  std::int64_t latest = latest_step;
  for (const auto& [rank, step] : acknowledged_) latest = std::max(latest, step);
  return latest + 1;
}

void Agreement::commit(std::int64_t step, Nanoseconds deadline) {
  TRIMTAB_ASSERT(std::cmp_equal(acknowledged_.size(), world_size_), "every rank acknowledges before a commit");
  committed_ = true;
  committed_step_ = step;
  deadline_ = deadline;
}

std::string Agreement::missing_ranks() const {
  std::string text;
  for (std::int32_t rank = 0; rank < world_size_; ++rank) {
    const bool there = committed_ ? active_.contains(rank) : acknowledged_.contains(rank);
    if (!there) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

}  // namespace trimtab::coordinator
