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
                          const StepTerms& terms, const TermParts& parts) {
  Ranks& ranks = plans_[plan_hash];
  ranks.sum_of_terms.resize(static_cast<std::size_t>(world_size));
  ranks.steps_with_terms.resize(static_cast<std::size_t>(world_size));
  ranks.parts.resize(static_cast<std::size_t>(world_size));
  ranks.sum_of_terms[rank] += terms;
  ranks.parts[rank].add(parts);
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
  if (plan.plan.said() == nullptr) return;
  std::vector<TermParts> parts;
  for (const MeanParts& of_rank : ranks.parts) parts.push_back(of_rank.mean());
  plan.terms = stage_terms(*plan.plan.said(), by_rank);
  plan.parts = stage_parts(*plan.plan.said(), by_rank, parts);
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

// Gives the place of each rank that tells of this stage alone.
template <typename Sink>
void each_told(const Stage& stage, const std::vector<int>& stages, const std::vector<StepTerms>& by_rank,
               const Sink& sink) {
  for (const std::int32_t device : stage.devices) {
    if (!std::cmp_less(device, by_rank.size()) || by_rank[device].total_ms() <= 0 || stages[device] > 1) continue;
    sink(static_cast<std::size_t>(device));
  }
}

}  // namespace

std::vector<StepTerms> stage_terms(const Plan& plan, const std::vector<StepTerms>& by_rank) {
  std::vector<StepTerms> terms;
  if (by_rank.empty()) return terms;
  const std::vector<int> stages = stages_of_devices(plan, by_rank.size());
  for (const Stage& stage : plan.stages) {
    StepTerms sum;
    double ranks = 0;
    each_told(stage, stages, by_rank, [&](std::size_t rank) {
      sum += by_rank[rank];
      ++ranks;
    });
    terms.push_back(ranks > 0 ? sum * (1 / ranks) : StepTerms{});
  }
  return terms;
}

std::vector<TermParts> stage_parts(const Plan& plan, const std::vector<StepTerms>& by_rank,
                                   const std::vector<TermParts>& parts) {
  if (std::ranges::none_of(parts, &TermParts::known)) return {};
  const std::vector<int> stages = stages_of_devices(plan, by_rank.size());
  std::vector<TermParts> of_stages;
  for (const Stage& stage : plan.stages) {
    MeanParts mean;
    each_told(stage, stages, by_rank, [&](std::size_t rank) { mean.add(parts[rank]); });
    of_stages.push_back(mean.mean());
  }
  return of_stages;
}

}  // namespace trimtab::coordinator
