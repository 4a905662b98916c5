#pragma once

// A prediction for people. Pure.

#include <string>
#include <vector>

#include "schema/prediction.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const Prediction& prediction);
// Where the iteration's time goes on each stage, in words: what --explain adds.
[[nodiscard]] std::string explain(const Prediction& prediction, const Plan& plan);
// What each cost of it rests on; empty where the model does not say.
[[nodiscard]] std::string rests_on_text(const std::vector<std::string>& lines);

}  // namespace trimtab::cli
