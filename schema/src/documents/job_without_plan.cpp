#include "schema/job_without_plan.hpp"

namespace trimtab {

bool has_no_plan(const Job& job) {
  const bool unmeasured = job.benchmark.empty() || (job.describe.empty() && job.model_json.empty());
  return job.mode == JobMode::kObserve && unmeasured;
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
                         " out: in mode observe the job then runs as it is");
      }
    }
  }
  if (!job.initial_plan_json.empty()) return bad_input(prefix + " has an initial plan" + needs + "it out");
  if (job.elastic) return bad_input(prefix + " is elastic" + needs + "elastic out");
  return {};
}

}  // namespace trimtab
