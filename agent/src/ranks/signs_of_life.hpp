#pragma once

// Ranks that say nothing, and do something: what shows that a silent process is no dead one. Its output has grown,
// it has recorded ranges, kernels or collectives, or it took processor time. Told of ranks that told no step since the
// last look, so a job whose steps are known costs nothing. Pure.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/clock.hpp"
#include "ranks/rank_identity.hpp"

namespace trimtab::agent {

// What there is to see of a rank that runs.
struct SeenRank {
  RankIdentity id;
  std::uint64_t launch = 0;
  std::uint64_t steps = 0;    // that it has told since it was connected
  std::int64_t output = 0;    // bytes of its log
  std::uint64_t records = 0;  // ranges, kernels and collectives that it has recorded
};

struct SignOfLife {
  RankIdentity id;
  std::uint64_t launch = 0;
  bool output = false;
  bool records = false;
  bool processor = false;
};

class SignsOfLife {
 public:
  // Processor time of the rank's process and all that it has started; asked for of silent ranks alone.
  using ProcessorTime = std::function<Nanoseconds(const RankIdentity&)>;

  // Of one core: less is a process that waits and looks at its clock now and then.
  static constexpr double kLeastProcessorShare = 0.02;

  // One of them was not there at the last look, or is another launch's: the next look has nothing to compare it with.
  [[nodiscard]] bool has_new(const std::vector<SeenRank>& ranks) const;
  // Those of `ranks` that told no step since the last look, and live.
  [[nodiscard]] std::vector<SignOfLife> look(Nanoseconds now, const std::vector<SeenRank>& ranks,
                                             const ProcessorTime& processor_time);

 private:
  struct Seen {
    SeenRank rank;
    Nanoseconds at{0};
    Nanoseconds processor{-1};  // below 0: not asked for
  };
  [[nodiscard]] bool is_new(const SeenRank& rank) const;

  std::map<RankIdentity, Seen> last_;
};

}  // namespace trimtab::agent
