#include "tuning/trial/pass_times.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trimtab::coordinator {

void PassTimes::add(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size, double ms) {
  Ranks& ranks = plans_[plan_hash];
  ranks.sum_ms.resize(static_cast<std::size_t>(world_size));
  ranks.steps.resize(static_cast<std::size_t>(world_size));
  ranks.sum_ms[rank] += ms;
  ++ranks.steps[rank];
}

void PassTimes::add_terms(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size,
                          const StepTerms& terms) {
  Ranks& ranks = plans_[plan_hash];
  ranks.sum_of_terms.resize(static_cast<std::size_t>(world_size));
  ranks.steps_with_terms.resize(static_cast<std::size_t>(world_size));
  ranks.sum_of_terms[rank] += terms;
  ++ranks.steps_with_terms[rank];
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
  if (ranks.sum_of_terms.empty()) return;
  std::vector<StepTerms> by_rank = ranks.sum_of_terms;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    if (ranks.steps_with_terms[i] > 0) by_rank[i] = by_rank[i] * (1.0 / ranks.steps_with_terms[i]);
  }
  if (plan.plan.said() != nullptr) plan.terms = stage_terms(*plan.plan.said(), by_rank);
}

namespace {

// By device, how many stages it has.
std::vector<int> stages_of_devices(const Plan& plan, std::size_t devices) {
  std::vector<int> stages(devices, 0);
  for (const Stage& stage : plan.stages) {
    for (const std::int32_t device : stage.devices) {
      if (std::cmp_less(device, devices)) ++stages[device];
    }
  }
  return stages;
}

}  // namespace

std::vector<StepTerms> stage_terms(const Plan& plan, const std::vector<StepTerms>& by_rank) {
  std::vector<StepTerms> terms;
  if (by_rank.empty()) return terms;
  const std::vector<int> stages = stages_of_devices(plan, by_rank.size());
  for (const Stage& stage : plan.stages) {
    StepTerms sum;
    double ranks = 0;
    for (const std::int32_t device : stage.devices) {
      if (!std::cmp_less(device, by_rank.size()) || by_rank[device].total_ms() <= 0 || stages[device] > 1) continue;
      sum += by_rank[device];
      ++ranks;
    }
    terms.push_back(ranks > 0 ? sum * (1 / ranks) : StepTerms{});
  }
  return terms;
}

}  // namespace trimtab::coordinator
