#include "tuning/pass_times.hpp"

#include <algorithm>
#include <cstddef>

namespace trimtab::coordinator {

void PassTimes::add(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size, double ms) {
  Ranks& ranks = plans_[plan_hash];
  ranks.sum_ms.resize(static_cast<std::size_t>(world_size));
  ranks.steps.resize(static_cast<std::size_t>(world_size));
  ranks.sum_ms[rank] += ms;
  ++ranks.steps[rank];
}

void PassTimes::tell(MeasuredPlan& plan) const {
  const auto found = plans_.find(plan.plan.hash);
  if (found == plans_.end()) return;
  const Ranks& ranks = found->second;
  plan.pass_ms.assign(ranks.steps.size(), 0.0);
  plan.pass_steps = 0;
  for (std::size_t i = 0; i < ranks.steps.size(); ++i) {
    if (ranks.steps[i] == 0) continue;
    plan.pass_ms[i] = ranks.sum_ms[i] / ranks.steps[i];
    plan.pass_steps = plan.pass_steps == 0 ? ranks.steps[i] : std::min(plan.pass_steps, ranks.steps[i]);
  }
}

}  // namespace trimtab::coordinator
