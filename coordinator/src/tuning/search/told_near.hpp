#pragma once

// What people and reports are told of costs that a job has taken over. Pure.

#include <optional>

#include "schema/api/report.hpp"
#include "tuning/search/near_state.hpp"

namespace trimtab::coordinator {

// Nothing where none are.
[[nodiscard]] std::optional<api::TakenOver> taken_over_of(const NearState& near);

}  // namespace trimtab::coordinator
