#pragma once

// What tuning has gained on the machine as it was meanwhile. Pure.

#include <optional>

#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

struct TuningState;

// Whether the job was tuned again since it was tuned first.
[[nodiscard]] bool was_tuned_again(const TuningState& state);
// Since tuning last began: what is kept beside what it began from, by their comparison. Where there was none: each
// plan was compared in turn with the one before it, and what one comparison does not know is independent of the others;
// but a plan that was adopted by luck counts with its luck. Nothing where no plan was adopted since.
[[nodiscard]] std::optional<Ratio> gained(const TuningState& state);

}  // namespace trimtab::coordinator
