#pragma once

// What a node may speak of: the ranks that a job has there. Pure.

#include <cstdint>
#include <string>

#include "tuning/state.hpp"

namespace trimtab::coordinator {

[[nodiscard]] bool holds_rank(const TuningState& job, const std::string& node, std::uint32_t rank);
[[nodiscard]] bool has_ranks_on(const TuningState& job, const std::string& node);
// Somebody else's, without a doubt. Before its first launch and while ranks are ended, a job's nodes need not be those
// that ranks of it ran on last: what comes late then is nobody's lie.
[[nodiscard]] bool is_foreign_rank(const TuningState& job, const std::string& node, std::uint32_t rank);

}  // namespace trimtab::coordinator
