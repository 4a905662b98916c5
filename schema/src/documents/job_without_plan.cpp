#include "schema/job_without_plan.hpp"

#include <numeric>

namespace trimtab {

namespace {

bool is_unmeasured(const Job& job) {
  return job.benchmark.empty() || (job.describe.empty() && job.model_json.empty());
}

}  // namespace

bool has_no_plan(const Job& job) {
  return job.mode == JobMode::kObserve && is_unmeasured(job);
}

bool tries_own_knobs_alone(const Job& job) {
  return job.mode != JobMode::kObserve && !job.own_knobs.empty() && is_unmeasured(job);
}

Plan plan_as_launched(std::int32_t ranks, OwnSettings own) {
  Plan plan;
  plan.model = kAsLaunched;
  plan.global_batch = plan.microbatch = ranks;
  Stage stage;
  stage.devices.resize(static_cast<std::size_t>(ranks));
  std::iota(stage.devices.begin(), stage.devices.end(), 0);
  Segment& whole = stage.segments.emplace_back();
  whole.operators = {0, 1};
  whole.dp = ranks;
  plan.stages.push_back(std::move(stage));
  plan.own = std::move(own);
  return plan;
}

bool is_as_launched(const Plan& plan) {
  return plan.model == kAsLaunched;
}

Status check_without_plan(const Job& job) {
  constexpr std::string_view kOfPlan[] = {"{plan}", "{target_arguments}", "{target_config}"};
  const std::string prefix = "job " + job.name;
  const std::string needs =
      ", which needs commands.benchmark, and a model file or commands.describe. Give the job those, or leave ";
  for (const auto* command : {&job.train, &job.submit}) {
    for (const std::string& argument : *command) {
      for (const std::string_view one : kOfPlan) {
        if (argument.find(one) == std::string::npos) continue;
        return bad_input(prefix + ": a command uses " + std::string(one) + needs + std::string(one) +
                         " out: the job then runs as it is");
      }
    }
  }
  if (!job.initial_plan_json.empty()) return bad_input(prefix + " has an initial plan" + needs + "it out");
  if (job.elastic) return bad_input(prefix + " is elastic" + needs + "elastic out");
  return {};
}

}  // namespace trimtab
