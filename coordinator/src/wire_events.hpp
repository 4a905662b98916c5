#pragma once

// What agents say, checked at the edge and turned into the tuning machine's events. Pure.

#include <optional>
#include <string>

#include "membership.hpp"
#include "tuning/event.hpp"

namespace trimtab::wire {
class Hello;
class RankEvent;
}  // namespace trimtab::wire

namespace trimtab::coordinator {

[[nodiscard]] Introduction introduction(const wire::Hello& hello);
// The ranks of one job that the agent looks after.
[[nodiscard]] NodeBack node_back(const wire::Hello& hello, const std::string& job_name);
// Nothing when it says nothing, or says what cannot be (a negative step or time).
[[nodiscard]] std::optional<FromRank> from_rank(const wire::RankEvent& event);

}  // namespace trimtab::coordinator
