#pragma once

// What both readers of traces share: bounds, names, and when the host handed out what a device did. Calls and kernels
// have a number in common. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

inline constexpr std::size_t kMostWork = 16'000'000;  // of one file
// What PyTorch calls a wait for the next batch begins with this.
inline constexpr std::string_view kLoaderRange = "enumerate(DataLoader)";

class Launches {
 public:
  void called(std::int64_t correlation, std::int64_t begin_ns) { calls_.push_back({correlation, begin_ns}); }
  // Of each piece of work, in its order.
  void worked(std::int64_t correlation, std::int64_t stream) { pieces_.push_back({correlation, stream}); }
  [[nodiscard]] std::size_t size() const { return calls_.size(); }

  // What was handed out before the recording began goes: it is of no step in the trace. A stream carries out what it
  // is given in turn, so this is what a stream did before the first piece whose call was recorded. A stream without
  // such a piece is kept whole: its calls are of a kind that the profiler does not record. REQUIRES: worked() was
  // called once for each.
  void join(std::vector<TracedWork>& work);

 private:
  struct Call {
    std::int64_t correlation;
    std::int64_t begin_ns;
  };
  std::vector<Call> calls_;
  struct Piece {
    std::int64_t correlation;
    std::int64_t stream;
  };
  void remove_carried_over(std::vector<TracedWork>& work) const;

  std::vector<Piece> pieces_;
};

// Times counted from the earliest one, all in the order of their beginnings. A step ends where the next begins, at the
// latest. One whose number is not above the one before is left out.
void settle(TracedRank& rank);

}  // namespace trimtab::published
