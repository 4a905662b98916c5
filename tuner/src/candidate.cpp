#include "candidate.hpp"

#include <algorithm>

namespace trimtab::tuner {

std::uint64_t hash_of(const Candidate& candidate) {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  const auto mix = [&hash](std::int32_t value) {
    hash ^= static_cast<std::uint64_t>(static_cast<std::uint32_t>(value)) + 0x9e3779b97f4a7c15U;
    hash *= 0xbf58476d1ce4e5b9U;
    hash ^= hash >> 29;
  };
  mix(candidate.microbatch);
  for (const CandidateStage& stage : candidate.stages) {
    mix(stage.end);
    mix(stage.devices);
    mix(stage.further);
  }
  return hash;
}

std::optional<Candidate> candidate_of(const Plan& plan, const PlanSpace& space) {
  const std::vector<std::int32_t>& allowed = space.microbatches;
  if (std::find(allowed.begin(), allowed.end(), plan.microbatch) == allowed.end()) return std::nullopt;
  if (plan.schedule != Schedule{plan.schedule.kind, plan.schedule.transfers} ||
      plan.schedule.kind != ScheduleKind::k1F1B) {
    return std::nullopt;
  }
  Candidate candidate;
  candidate.microbatch = plan.microbatch;
  std::int32_t device = 0;
  for (const Stage& stage : plan.stages) {
    for (const std::int32_t listed : stage.devices) {
      if (listed != device++) return std::nullopt;
    }
    const auto devices = static_cast<std::int32_t>(stage.devices.size());
    const bool replicas = std::all_of(stage.segments.begin(), stage.segments.end(),
                                      [devices](const Segment& segment) { return segment.dp == devices; });
    if (!replicas) return std::nullopt;
    candidate.stages.push_back({stage.operators().end, devices, 0});
  }
  if (device != space.devices) return std::nullopt;
  return candidate;
}

Plan plan_of(const Candidate& candidate, const Model& model, const std::vector<std::vector<Range>>& recompute) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = candidate.microbatch;
  std::int32_t device = 0;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const CandidateStage& from = candidate.stages[s];
    Segment segment;
    segment.operators = {candidate.begin_of(s), from.end};
    segment.dp = from.devices;
    segment.recompute = recompute[s];
    Stage stage;
    for (std::int32_t i = 0; i < from.devices; ++i) stage.devices.push_back(device++);
    stage.segments = {segment};
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace trimtab::tuner
