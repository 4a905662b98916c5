#include "tuning/launch/running_plan.hpp"

#include "tuning/state.hpp"

namespace trimtab::coordinator {

void RunningPlan::begin_launch() {
  hash_.clear();
  epochs_.clear();
  ranks_at_epoch_.clear();
}

void RunningPlan::learn(std::int32_t rank, std::uint64_t epoch) {
  if (epoch == 0 || rank < 0 || rank >= state_.world_size()) return;
  std::uint64_t& known = epochs_[rank];
  if (known != 0) --ranks_at_epoch_[known];
  known = epoch;
  hash_.clear();
  if (++ranks_at_epoch_[epoch] < state_.world_size()) return;
  if (const std::string* const hash = state_.hash_of(epoch)) hash_ = *hash;
}

void RunningPlan::learn_of_all(std::uint64_t epoch) {
  const std::string* const hash = state_.hash_of(epoch);
  if (hash == nullptr) return hash_.clear();  // nobody's plan, or several
  if (hash_ == *hash) return;
  for (std::int32_t rank = 0; rank < state_.world_size(); ++rank) epochs_[rank] = epoch;
  ranks_at_epoch_ = {{epoch, state_.world_size()}};
  hash_ = *hash;
}

}  // namespace trimtab::coordinator
