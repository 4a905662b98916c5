#include "plans/plan_targets.hpp"

#include "schema/target.hpp"

namespace trimtab::cli {

std::vector<TargetAnswer> answers_of_targets(const Plan& plan, const Model& model) {
  std::vector<TargetAnswer> answers;
  for (const std::string_view target : targets()) {
    const auto complaints = unhonoured(plan, model, target);
    answers.push_back(
        {std::string(target), complaints.ok() ? *complaints : std::vector<std::string>{complaints.error().message}});
  }
  return answers;
}

std::string describe(const std::vector<TargetAnswer>& answers) {
  std::string honoured;
  std::string refused;
  for (const TargetAnswer& one : answers) {
    if (one.complaints.empty()) {
      honoured += (honoured.empty() ? "" : ", ") + one.target;
      continue;
    }
    refused += "  not " + one.target + ": " + one.complaints.front();
    const std::size_t more = one.complaints.size() - 1;
    refused += (more > 0 ? "; and " + std::to_string(more) + " more" : "") + "\n";
  }
  return "Honoured by " + (honoured.empty() ? "no target" : honoured) + ".\n" + refused;
}

}  // namespace trimtab::cli
