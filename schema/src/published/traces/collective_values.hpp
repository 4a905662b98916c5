#pragma once

// From when ranks were in their collectives to how long the transfers took.
//
// A rank's own time in a collective contains waiting for those that come later. All ranks end within a hop of each
// other, so the rank that came last was in it for the shortest time, and that is the transfer, whatever their clocks
// say. This needs the times of every rank of the group. A send's receiver may have found the bytes in a buffer, so of
// the two only a receive that took longer than its send tells that the receiver waited: the send's time is the
// transfer. Everything else is stored with the waiting in it. Pure; single-threaded.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "published/traces/rank_nodes.hpp"
#include "schema/cost.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

class CollectiveValues {
 public:
  // `number`: of the rank in its job.
  void add(const TracedRank& rank, std::int32_t number);

  struct Made {
    std::map<CostSource, std::map<CostKey, Statistics>> costs;  // sources without a name
    std::size_t waiting = 0;                                    // values that contain waiting
    std::size_t nowhere = 0;                                    // values left out: nobody says on which nodes
  };
  [[nodiscard]] Made make(const RankNodes& nodes) const;

 private:
  // Ranks count collectives of one place alike. Of sends and receives `from` and `to` say the pair, else they are -1.
  struct Place {
    std::uint32_t group = 0;
    std::int32_t from = -1;
    std::int32_t to = -1;
    std::int64_t sequence = -1;
    std::int64_t step = -1;
    auto operator<=>(const Place&) const = default;
  };
  struct Seen {
    TracedCollective what;
    std::int32_t rank = 0;
    CostSource::Clock clock = CostSource::Clock::kDevice;
  };
  using ByRank = std::map<std::int32_t, std::vector<Seen>>;
  [[nodiscard]] bool is_whole(const Place& place, const ByRank& ranks) const;
  void join(const Place& place, const ByRank& ranks, bool several, Made& made) const;
  void keep(const Place& place, const Seen& seen, bool several, Made& made) const;
  [[nodiscard]] CostKey key_of(const Place& place, const TracedCollective& what, bool several) const;

  std::vector<TracedGroup> groups_;
  std::map<TracedGroup, std::uint32_t> group_numbers_;
  std::map<Place, ByRank> places_;
};

}  // namespace trimtab::published
