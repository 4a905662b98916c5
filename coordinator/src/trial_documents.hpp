#pragma once

// What the API's documents and the report tell of a trial alike. Pure.

#include <vector>

#include "schema/api/job.hpp"
#include "schema/api/trial.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// Where its steps went, stage by stage: as it was predicted before the trial, and as its ranks measured it. Empty where
// neither is known.
[[nodiscard]] std::vector<api::TrialStage> trial_stages(const Trial& trial);
[[nodiscard]] api::Ratio document_of(const Ratio& ratio);
[[nodiscard]] api::SwitchPhases document_of(const SwitchPhases& phases);
[[nodiscard]] api::Interval interval_of(const Predicted& predicted);
[[nodiscard]] api::Overhead overhead_of(const TuningState& state);

}  // namespace trimtab::coordinator
