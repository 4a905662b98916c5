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
// What an agent says beyond is no number of a launch.
inline constexpr std::uint64_t kMostLaunches = std::uint64_t{1} << 48;
// The ranks of one job that the agent looks after, and its latest launch there.
[[nodiscard]] NodeBack node_back(const wire::Hello& hello, const std::string& job_name);
// Nothing when it says nothing, or says what cannot be (a negative step or time).
[[nodiscard]] std::optional<FromRank> from_rank(const wire::RankEvent& event);

}  // namespace trimtab::coordinator
