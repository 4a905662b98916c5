#pragma once

// The tune report, report.json: composed from a job's persisted state, finished or not. Pure.

#include <optional>
#include <string>
#include <vector>

#include "schema/api/job.hpp"
#include "schema/api/trial.hpp"
#include "tuning/action.hpp"
#include "tuning/state.hpp"
#include "tuning/trial/gains.hpp"

namespace trimtab::coordinator {

// The document of schema/api/report.hpp. `earlier`: trials that the state has no more. `timelines_json` is an
// api::Timelines; what is none is left out. `steps` are the measured ones.
[[nodiscard]] std::string report_json(const TuningState& state, const std::string& timelines_json,
                                      const std::vector<MeasuredStep>& steps,
                                      const std::vector<EarlierTrial>& earlier = {});

// What the API's documents tell of a trial, too.

// Where its steps went, stage by stage: as it was predicted before the trial, and as its ranks measured it. Empty where
// neither is known.
[[nodiscard]] std::vector<api::TrialStage> trial_stages(const Trial& trial);
[[nodiscard]] api::Ratio document_of(const Ratio& ratio);
[[nodiscard]] api::SwitchPhases document_of(const ChangePhases& phases);
[[nodiscard]] api::Interval interval_of(const Predicted& predicted);
// Nothing where nothing was measured (gains.hpp).
[[nodiscard]] std::optional<api::Gain> gain_of(const TuningState& state);
[[nodiscard]] std::optional<api::Gain> document_of(const std::optional<ToldGain>& told);
[[nodiscard]] api::Overhead overhead_of(const TuningState& state);

}  // namespace trimtab::coordinator
