#pragma once

// Steps that the user measured under plans: they correct a cost model's predictions as a job's trials do.

#include <memory>
#include <string>

#include "tuner/cost_model.hpp"

namespace trimtab::cli {

// `path`: a line of JSON each, {"step_s": seconds, "plan": a plan.json}. `model` knows nothing of trials. Every failure
// is bad input that names the line. The native model alone can be corrected.
[[nodiscard]] Result<std::unique_ptr<tuner::CostModel>> corrected_by(const std::string& path,
                                                                     const tuner::CostModel& model);

}  // namespace trimtab::cli
