
#include "schema/job.hpp"
#include "schema/nearest.hpp"
#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

const std::vector<TargetEntry>& table() {
  static const std::vector<TargetEntry> kTable{trainer_target(),      megatron_target(),
                                               deepspeed_target(),    galvatron_target(),
                                               ddp_target(),          fsdp_target(),
                                               fsdp2_target(),        pipelining_target(),
                                               torchtitan_target(),   torchtitan_toml_target(),
                                               transformers_target(), transformers_deepspeed_target(),
                                               accelerate_target(),   accelerate_deepspeed_target(),
                                               lightning_target(),    lightning_deepspeed_target()};
  return kTable;
}

Result<const TargetEntry*> find_target(std::string_view name) {
  std::string list;
  std::vector<std::string> known;
  for (const TargetEntry& entry : table()) {
    if (entry.name == name) return &entry;
    known.emplace_back(entry.name);
    list += (list.empty() ? "" : ", ") + known.back();
  }
  return bad_input("target: needs one of " + list + ", found '" + std::string(name) + "'; did you mean '" +
                   nearest(std::string(name), known) + "'?");
}

std::vector<std::string> complaints_of(const TargetEntry& entry, const PlanLayers& view) {
  Complaints complaints;
  entry.check(view, complaints);
  return complaints;
}

}  // namespace

std::vector<std::string_view> targets() {
  std::vector<std::string_view> names;
  for (const TargetEntry& entry : table()) names.push_back(entry.name);
  return names;
}

Result<std::vector<TargetKnob>> target_knobs(std::string_view target) {
  TRIMTAB_TRY(const TargetEntry* const entry, find_target(target));
  return entry->knobs;
}

bool limits_plans(std::string_view target) {
  return !target.empty() && target != "trainer";
}

Result<TargetLimits> target_limits(std::string_view target) {
  TRIMTAB_TRY(const TargetEntry* const entry, find_target(target));
  return entry->limits;
}

bool changes_live(std::string_view target) {
  const auto limits = target_limits(target);
  return limits.ok() && limits->live;
}

Knobs within_target(Knobs knobs, std::string_view target) {
  if (!limits_plans(target)) return knobs;
  const auto limits = target_limits(target);
  if (!limits.ok()) return knobs;
  knobs.pipeline = knobs.pipeline && limits->pipeline;
  knobs.sliced_microbatches = knobs.sliced_microbatches && limits->sliced;
  knobs.tensor_parallel = knobs.tensor_parallel && limits->tensor_parallel != Reach::kNone;
  // Where ranks are replicas or nothing, they are replicas: there is no other number to keep.
  const bool only_replicas = !limits->pipeline && limits->tensor_parallel == Reach::kNone;
  knobs.data_parallel = knobs.data_parallel || only_replicas;
  knobs.sharded = knobs.sharded && limits->sharded != Reach::kNone;
  knobs.mixed_splits = knobs.mixed_splits && limits->tensor_parallel == Reach::kLayer;
  knobs.partial_shards = knobs.partial_shards && limits->partial_shards;
  knobs.sequence_parallel = knobs.sequence_parallel && limits->sequence_parallel;
  knobs.context_parallel = knobs.context_parallel && limits->context_parallel;
  knobs.interleaved = knobs.interleaved && limits->interleaved;
  return knobs;
}

Result<std::vector<std::string>> unhonoured(const Plan& plan, const Model& model, std::string_view target) {
  TRIMTAB_TRY(const TargetEntry* const entry, find_target(target));
  TRIMTAB_TRY(const PlanLayers view, plan_layers(plan, model));
  return complaints_of(*entry, view);
}

Plan as_run(Plan plan, std::string_view target) {
  const auto limits = target_limits(target);
  if (limits.ok() && limits->bucket_bytes > 0) {
    plan.target_knobs.try_emplace(kBucketKnob, std::to_string(limits->bucket_bytes));
  }
  return plan;
}

Result<ExportedPlan> export_plan(const Plan& plan, const Model& model, std::string_view target) {
  TRIMTAB_TRY(const TargetEntry* const entry, find_target(target));
  TRIMTAB_TRY(const PlanLayers view, plan_layers(plan, model));
  const std::vector<std::string> complaints = complaints_of(*entry, view);
  if (complaints.empty()) return entry->write(view);
  std::string text = "the plan sets what target '" + std::string(target) + "' does not honour:";
  for (const std::string& one : complaints) text += "\n  " + one;
  return bad_input(text + "\nSearch with --target " + std::string(target) + " for plans that it can run");
}

}  // namespace trimtab
