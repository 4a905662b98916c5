#include "commands/job_context.hpp"

namespace trimtab::agent {

void JobContext::node_changed(Fingerprint node) {
  node_ = std::move(node);
  fingerprints_.clear();
}

Status JobContext::remember_job(const Job& job) {
  const Scratch scratch(state_, job.name, "");
  TRIMTAB_TRY_STATUS(scratch.create());
  TRIMTAB_TRY_STATUS(write_file(scratch.job(), to_json(job)));
  fingerprints_.insert_or_assign(job.name, fingerprint_json(job));
  return job.model_json.empty() ? Status{} : remember_model(job.name, job.model_json);
}

std::string JobContext::fingerprint_json(const Job& job) const {
  return to_json(fingerprint_of_job(node_, job.environment, job.software));
}

std::string JobContext::fingerprint_json(const std::string& job) {
  if (const auto found = fingerprints_.find(job); found != fingerprints_.end()) return found->second;
  const auto known = known_job(job);
  if (!known.ok()) return to_json(node_);
  return fingerprints_.insert_or_assign(job, fingerprint_json(*known)).first->second;
}

// As its last launch has written it.
Result<Job> JobContext::known_job(const std::string& name) const {
  if (!is_job_name(name)) return bad_input("'" + name + "' is no job's name");
  TRIMTAB_TRY(const std::string text, read_file(Scratch(state_, name, "").job()));
  return parse_job(text, "job " + name);
}

Status JobContext::remember_model(const std::string& job, std::string_view model_json) {
  TRIMTAB_TRY(auto model, parse_model(model_json, "the model of job " + job));
  const Scratch scratch(state_, job, "");
  TRIMTAB_TRY_STATUS(scratch.create());
  TRIMTAB_TRY_STATUS(write_file(scratch.model(), model_json));
  models_.insert_or_assign(job, std::move(model));
  return {};
}

void JobContext::forget(const std::string& job) {
  models_.erase(job);
  plans_.erase(job);
  fingerprints_.erase(job);
}

void JobContext::forget_all_but(const std::function<bool(const std::string& job)>& is_kept) {
  std::erase_if(models_, [&](const auto& one) { return !is_kept(one.first); });
  std::erase_if(plans_, [&](const auto& one) { return !is_kept(one.first); });
  std::erase_if(fingerprints_, [&](const auto& one) { return !is_kept(one.first); });
}

const Model* JobContext::model(const std::string& job) {
  if (const auto found = models_.find(job); found != models_.end()) return &found->second;
  if (!is_job_name(job)) return nullptr;
  const auto text = read_file(Scratch(state_, job, "").model());
  if (!text.ok()) return nullptr;
  auto parsed = parse_model(*text, "the model of job " + job);
  if (!parsed.ok()) return nullptr;
  return &models_.insert_or_assign(job, std::move(parsed).value()).first->second;
}

Result<const Plan*> JobContext::plan(const std::string& job, std::string_view plan_json) {
  DocumentText<Plan>& known = plans_[job];
  if (known.json != plan_json || known.empty()) known = DocumentText<Plan>(std::string(plan_json), "the launch's plan");
  if (!known.read().ok()) return known.read().error();
  return known.said();
}

Result<ExportedPlan> JobContext::exported(const Job& job, std::string_view plan_json) {
  const Model* const known = model(job.name);
  if (known == nullptr) return bad_input("the model of job " + job.name + " is not known, which an export needs");
  TRIMTAB_TRY(const Plan* const its_plan, plan(job.name, plan_json));
  return export_plan(*its_plan, *known, job.target);
}

Result<std::string> JobContext::target_config(const std::string& job, std::string_view plan_json) {
  const auto known = known_job(job);
  if (!known.ok() || !limits_plans(known->target)) return std::string();
  TRIMTAB_TRY(ExportedPlan made, exported(*known, plan_json));
  return made.file_name.ends_with(".json") ? std::move(made.file_text) : std::string();
}

std::optional<FoldContext> JobContext::context(const std::string& job, std::uint32_t rank, std::string_view plan_json) {
  const Model* known = model(job);
  if (known == nullptr) return std::nullopt;
  const auto its_plan = plan(job, plan_json);
  if (!its_plan.ok()) return std::nullopt;
  return fold_context(*known, **its_plan, static_cast<std::int32_t>(rank));
}

std::optional<FoldContext> JobContext::launched_context(const Scratch& scratch, const std::string& job,
                                                        std::uint32_t rank, std::uint64_t epoch) {
  const auto text = read_file(scratch.plan(epoch));
  return text.ok() ? context(job, rank, *text) : std::nullopt;
}

}  // namespace trimtab::agent
