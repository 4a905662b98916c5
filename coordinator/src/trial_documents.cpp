#include "trial_documents.hpp"

#include <algorithm>
#include <optional>

namespace trimtab::coordinator {
namespace {

std::optional<api::Terms> terms_of(const std::vector<StepTerms>& terms, std::size_t stage) {
  if (stage >= terms.size() || terms[stage].total_ms() <= 0) return std::nullopt;
  return api::Terms{terms[stage]};
}

// Parts that are not known are 0.
double told(double ms) {
  return std::max(0.0, ms);
}

}  // namespace

std::vector<api::TrialStage> trial_stages(const Trial& trial) {
  std::vector<api::TrialStage> stages(std::max(trial.predicted_terms.size(), trial.measured_terms.size()));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s] = {terms_of(trial.predicted_terms, s), terms_of(trial.measured_terms, s)};
  }
  return stages;
}

api::Ratio document_of(const Ratio& ratio) {
  return {ratio.ratio, ratio.low, ratio.high};
}

api::SwitchPhases document_of(const SwitchPhases& phases) {
  return {.stop_ms = told(phases.stop_ms),
          .copy_ms = told(phases.copy_ms),
          .queue_ms = told(phases.queue_ms),
          .start_ms = told(phases.start_ms),
          .save_ms = told(phases.save_ms),
          .move_ms = told(phases.move_ms),
          .groups_ms = told(phases.groups_ms),
          .build_ms = told(phases.build_ms),
          .wait_ms = told(phases.wait_ms),
          .first_step_ms = told(phases.first_step_ms),
          .warm_up_ms = told(phases.warm_up_ms)};
}

api::Interval interval_of(const Predicted& predicted) {
  return {predicted.low_ms, predicted.high_ms};
}

api::Overhead overhead_of(const TuningState& state) {
  return {state.overhead_ms(), state.overhead_share(), state.job.trials.overhead};
}

}  // namespace trimtab::coordinator
