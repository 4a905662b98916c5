#pragma once

// The tune report, report.json: composed from a job's persisted state, finished or not. Pure.

#include <string>
#include <vector>

#include "tuning/action.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// The document of schema/api/report.hpp. `earlier`: trials that the state has no more. `timelines_json` is an
// api::Timelines; what is none is left out. `steps` are the measured ones.
[[nodiscard]] std::string report_json(const TuningState& state, const std::string& timelines_json,
                                      const std::vector<MeasuredStep>& steps,
                                      const std::vector<EarlierTrial>& earlier = {});

// The mean relative error of predictions: as trials found them, and before any calibration.
struct PredictionError {
  double before = 0;
  double after = 0;
  int plans = 0;
};
// Over measured trials, each predicted before it ran; where there are none, over the initial plan.
[[nodiscard]] PredictionError prediction_error(const TuningState& state);

}  // namespace trimtab::coordinator
