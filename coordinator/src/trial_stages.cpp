#include "trial_stages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

json terms_json(const std::vector<StepTerms>& terms, std::size_t stage) {
  if (stage >= terms.size() || terms[stage].total_ms() <= 0) return nullptr;
  const StepTerms& of = terms[stage];
  return {{"computation_ms", of.computation_ms},
          {"collectives_ms", of.collectives_ms},
          {"gradients_ms", of.gradients_ms},
          {"transfers_ms", of.transfers_ms},
          {"idle_ms", of.idle_ms}};
}

}  // namespace

json trial_stages(const Trial& trial) {
  const std::vector<StepTerms>& predicted = trial.predicted_terms;
  const std::vector<StepTerms>& measured = trial.measured_terms;
  json stages = json::array();
  for (std::size_t s = 0; s < std::max(predicted.size(), measured.size()); ++s) {
    stages.push_back({{"predicted", terms_json(predicted, s)}, {"measured", terms_json(measured, s)}});
  }
  return stages;
}

}  // namespace trimtab::coordinator
