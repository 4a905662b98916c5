#include <set>

#include "plan/plan_rules.hpp"
#include "plan/plan_space.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

const char* const kNoKnob = " is not honoured by this job: leave it at its default";

// A field that is set though the job's knob is off.
void refuse(const std::string& field, const char* knob, Rules& rules) {
  rules.push_back(field + ": must be left at its default; the job does not honour knobs." + knob);
}

void check_even(const Plan& plan, const Model& model, Rules& rules) {
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  if (stages > static_cast<std::int32_t>(allowed_cuts(model).size()) + 1) return;
  const std::vector<std::int32_t> cuts = even_cuts(model, stages);
  for (std::int32_t s = 1; s < stages; ++s) {
    if (plan.stages[s].segments.empty() || plan.stages[s].operators().begin == cuts[s - 1]) continue;
    rules.push_back(stage_text(s) + ": must begin with " + operator_text(model, cuts[s - 1]) +
                    ", the even cut, found operator " + std::to_string(plan.stages[s].operators().begin) +
                    "; the job does not honour knobs.uneven_stages");
  }
  for (std::int32_t s = 1; s < stages; ++s) {
    if (plan.stages[s].devices.size() == plan.stages[0].devices.size()) continue;
    rules.push_back(stage_text(s) + ".devices: must be as many as the first stage's, " +
                    std::to_string(plan.stages[0].devices.size()) + ", found " +
                    std::to_string(plan.stages[s].devices.size()) + "; the job does not honour knobs.uneven_stages");
  }
}

void check_schedule(const Schedule& schedule, const Knobs& knobs, Rules& rules) {
  const bool interleaved = knobs.interleaved && schedule.kind == ScheduleKind::kInterleaved;
  if (schedule.kind != ScheduleKind::k1F1B && !interleaved) {
    rules.push_back("schedule.kind: must be 1f1b, the schedule that the job runs");
  }
  if (schedule.sliced_microbatches != 0 && !knobs.sliced_microbatches) {
    refuse("schedule.sliced_microbatches", "sliced_microbatches", rules);
  }
  if (knobs.sub_batches) return;
  if (schedule.sub_batches > 1) refuse("schedule.sub_batches", "sub_batches", rules);
  if (schedule.cross_pass) refuse("schedule.cross_pass", "sub_batches", rules);
  if (schedule.recompute_after_communication) {
    refuse("schedule.recompute_after_communication", "sub_batches", rules);
  }
}

void check_segment(const Segment& segment, const std::string& where, const Knobs& knobs, Rules& rules) {
  if (!knobs.data_parallel && segment.dp > 1) {
    rules.push_back(where + ".dp: must be 1, found " + std::to_string(segment.dp) +
                    "; the job does not honour knobs.data_parallel");
  }
  if (!knobs.recompute && !segment.recompute.empty()) {
    rules.push_back(where + ".recompute: must be empty; the job does not honour knobs.recompute");
  }
  if (segment.tp > 1 && !knobs.tensor_parallel) refuse(where + ".tp", "tensor_parallel", rules);
  if (segment.cp > 1 && !knobs.context_parallel) refuse(where + ".cp", "context_parallel", rules);
  if (!segment.alternate_dimension.empty()) rules.push_back(where + ".alternate_dimension" + kNoKnob);
  if (segment.sharded != ShardedLevel::kNone && !knobs.sharded) refuse(where + ".sharded", "sharded", rules);
  if (segment.switches != Switches{} && !knobs.memory_switches) refuse(where + ".switches", "memory_switches", rules);
}

void check_every_device_used(const Plan& plan, const Cluster& cluster, Rules& rules) {
  std::set<std::int32_t> used;
  for (const Stage& stage : plan.stages) used.insert(stage.devices.begin(), stage.devices.end());
  const std::int32_t devices = cluster.devices();
  for (std::int32_t device = 0; device < devices; ++device) {
    if (used.count(device) != 0) continue;
    rules.push_back("stages: device " + std::to_string(device) +
                    " belongs to no stage, but every rank of the job takes part");
  }
}

}  // namespace

std::vector<std::string> validate(const Plan& plan, const Model& model, const Cluster& cluster, const Knobs& knobs) {
  Rules rules = validate(plan, model, cluster);
  if (!knobs.pipeline && plan.stages.size() > 1) {
    rules.push_back("stages: must be one, found " + std::to_string(plan.stages.size()) +
                    "; the job does not honour knobs.pipeline");
  }
  if (!knobs.uneven_stages) check_even(plan, model, rules);
  check_schedule(plan.schedule, knobs, rules);
  check_every_device_used(plan, cluster, rules);
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    check_segment(segment, segment_text(s, g), knobs, rules);
  });
  for (const auto& [name, json] : plan.target_knobs) {
    if (name != kSequenceParallel) {
      rules.push_back("target_knobs." + name + kNoKnob);
    } else if (json == "true" && !knobs.sequence_parallel) {
      refuse("target_knobs." + name, kSequenceParallel, rules);
    }
  }
  return rules;
}

}  // namespace trimtab::tuner
