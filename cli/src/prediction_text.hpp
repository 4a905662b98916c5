#pragma once

// A prediction for people. Pure.

#include <string>

#include "schema/prediction.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const Prediction& prediction);
// Where the iteration's time goes on each stage, in words: what --explain adds.
[[nodiscard]] std::string explain(const Prediction& prediction, const Plan& plan);

}  // namespace trimtab::cli
