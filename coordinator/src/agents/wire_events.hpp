#pragma once

// What agents say, checked at the edge and turned into the tuning machine's events, and what a node may speak of: the
// ranks that a job has there. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "agents/membership.hpp"
#include "agents/wire_messages.hpp"
#include "card/card_step.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// What is kept of a peer's texts, in bytes: whole characters of longer ones. Agents send no longer ones.
inline constexpr std::size_t kLongestReason = 256;
inline constexpr std::size_t kLongestMessage = std::size_t{16} << 10;
inline constexpr std::size_t kLongestOutput = std::size_t{16} << 10;  // the end of what a rank wrote
// A step whose samples are told at greater length is refused: a part of a hash would be another's.
inline constexpr std::size_t kLongestSamples = 256;
// Ranks that a hello names; more are not looked at.
inline constexpr int kMostRunning = 4096;
// Of a rank's program; agents send no longer ones.
inline constexpr std::size_t kLongestFacts = std::size_t{16} << 10;
// What a rank does right now, as its agent tells: a larger message is refused.
inline constexpr std::size_t kLargestActivity = std::size_t{256} << 10;

[[nodiscard]] Introduction introduction(const wire::Hello& hello);
// A coordinator whose state is an older copy has given out at most so many launches since: one a minute for two years.
inline constexpr std::uint64_t kMostLaunchesAhead = std::uint64_t{1} << 20;
// The ranks of one job that the agent looks after, and its latest launch there; higher ones than `believed` are none.
[[nodiscard]] NodeBack node_back(const wire::Hello& hello, const std::string& job_name, std::uint64_t believed);
// Nothing when it says nothing, or says what cannot be (a negative step or time).
[[nodiscard]] std::optional<FromRank> from_rank(const wire::RankEvent& event);

// Nothing where the event does not announce a rank that its user launched, or says what cannot be.
[[nodiscard]] std::optional<RankWatched> rank_watched(const wire::RankEvent& event, const Member& member);
[[nodiscard]] CardStep card_step(const wire::Step& step);

[[nodiscard]] bool holds_rank(const TuningState& job, const std::string& node, std::uint32_t rank);
[[nodiscard]] bool has_ranks_on(const TuningState& job, const std::string& node);
// Somebody else's, without a doubt. Before its first launch and while ranks are ended, a job's nodes need not be those
// that ranks of it ran on last: what comes late then is nobody's lie. Of a watched job's ranks some may not be known.
[[nodiscard]] bool is_foreign_rank(const TuningState& job, const std::string& node, std::uint32_t rank);

}  // namespace trimtab::coordinator
