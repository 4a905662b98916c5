#include <algorithm>
#include <string>
#include <utility>

#include "plans/plan_text.hpp"

namespace trimtab::cli {

namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string yes_no(bool value) {
  return value ? "yes" : "no";
}

void add_switches(Fields& fields, const std::string& path, const Switches& switches) {
  fields.emplace_back(path + "offload_hidden", describe(normalized(switches.offload_hidden)));
  fields.emplace_back(path + "partition_parameters", describe(normalized(switches.partition_parameters)));
  fields.emplace_back(path + "lazy_prefetch", describe(normalized(switches.lazy_prefetch)));
  fields.emplace_back(path + "economical_forward", describe(normalized(switches.economical_forward)));
  fields.emplace_back(path + "economical_backward", describe(normalized(switches.economical_backward)));
  fields.emplace_back(path + "segment_sync", describe(normalized(switches.segment_sync)));
  fields.emplace_back(path + "offload_optimizer", yes_no(switches.offload_optimizer));
}

void add_segment(Fields& fields, const std::string& path, const Segment& segment) {
  const bool sharded = segment.sharded != ShardedLevel::kNone;
  const std::int32_t degree = segment.sharded_degree == 0 ? segment.dp : segment.sharded_degree;
  fields.emplace_back(path + "operators", describe(segment.operators));
  fields.emplace_back(path + "dp", std::to_string(segment.dp));
  fields.emplace_back(path + "tp", std::to_string(segment.tp));
  fields.emplace_back(path + "cp", std::to_string(segment.cp));
  fields.emplace_back(path + "sharded", std::string(describe(segment.sharded)));
  fields.emplace_back(path + "sharded_degree", sharded ? std::to_string(degree) : "-");
  // The order of tensor-parallel ranks means nothing without tensor parallelism.
  fields.emplace_back(path + "tp_consecutive", segment.tp > 1 ? yes_no(segment.tp_consecutive) : "-");
  fields.emplace_back(path + "recompute", describe(normalized(segment.recompute)));
  fields.emplace_back(path + "alternate_dimension", describe(normalized(segment.alternate_dimension)));
  add_switches(fields, path + "switches.", segment.switches);
}

void add_stage(Fields& fields, const std::string& path, const Stage& stage) {
  std::string devices;
  for (const std::int32_t device : stage.devices) devices += (devices.empty() ? "" : ",") + std::to_string(device);
  fields.emplace_back(path + "devices", devices);
  for (std::size_t i = 0; i < stage.segments.size(); ++i) {
    add_segment(fields, path + "segments[" + std::to_string(i) + "].", stage.segments[i]);
  }
}

// Every field of a plan with its meaning as text, in document order.
Fields fields_of(const Plan& plan) {
  Fields fields{{"model", plan.model},
                {"global_batch", std::to_string(plan.global_batch)},
                {"microbatch", std::to_string(plan.microbatch)},
                {"schedule.kind", std::string(describe(plan.schedule.kind))},
                {"schedule.transfers", std::string(describe(plan.schedule.transfers))},
                {"schedule.sliced_microbatches", std::to_string(plan.schedule.sliced_microbatches)},
                {"schedule.sub_batches", std::to_string(plan.schedule.sub_batches)},
                {"schedule.cross_pass", yes_no(plan.schedule.cross_pass)},
                {"schedule.recompute_after_communication", yes_no(plan.schedule.recompute_after_communication)},
                {"stages", std::to_string(plan.stages.size())}};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    add_stage(fields, "stages[" + std::to_string(i) + "].", plan.stages[i]);
  }
  for (const auto& [knob, json] : plan.target_knobs) fields.emplace_back("target_knobs." + knob, json);
  return fields;
}

std::string value_in(const Fields& fields, const std::string& field) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& pair) { return pair.first == field; });
  return found == fields.end() ? "-" : found->second;
}

}  // namespace

std::vector<PlanChange> differences(const Plan& before, const Plan& after) {
  const Fields old_fields = fields_of(before);
  const Fields new_fields = fields_of(after);
  std::vector<PlanChange> changes;
  for (const auto& [field, value] : old_fields) {
    const std::string now = value_in(new_fields, field);
    if (now != value) changes.push_back({field, value, now});
  }
  for (const auto& [field, value] : new_fields) {
    const std::string old_value = value_in(old_fields, field);
    const auto is_field = [&name = field](const auto& pair) { return pair.first == name; };
    const bool known = std::any_of(old_fields.begin(), old_fields.end(), is_field);
    if (!known && old_value != value) changes.push_back({field, old_value, value});
  }
  return changes;
}

}  // namespace trimtab::cli
