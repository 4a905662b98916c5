#pragma once

// A watched job: its user launched it, and agents tell of its ranks. What they tell is kept, and nothing is ever asked
// of them. The job begins with its first rank and is over when its ranks are. Silence is told to people, and no more.
// The machine (Tuning) moves the phase, as for any other job.

#include <cstdint>
#include <map>
#include <string>

#include "tuning/machine.hpp"

namespace trimtab::coordinator {

class Watching {
 public:
  // Without all ranks the job counts as begun once no further one has come for so long.
  static constexpr Nanoseconds kGathering = std::chrono::seconds(30);
  // A launcher that restarts ranks which have failed does so within this: until then their job is not over.
  static constexpr Nanoseconds kRestarting = std::chrono::seconds(60);
  // Ranks of nodes that are away for longer are given up.
  static constexpr Nanoseconds kAway = std::chrono::hours(1);

  explicit Watching(Machine& machine) : m_(machine) {}

  // The ranks that the state knows of may still be there: each node says so when it is back.
  void resume();
  // What is told of the ranks counts, and nothing is asked for.
  [[nodiscard]] Next handle(const Event& event);

  // The rank is one of a further run: every rank of this one has ended, and its launcher has not restarted them.
  [[nodiscard]] bool is_over_for(const RankWatched& rank) const;
  // The rank of that launch lives on another node, which is not away.
  [[nodiscard]] bool is_held_elsewhere(const RankWatched& rank) const;

 private:
  [[nodiscard]] Next handle(const RankWatched& rank);
  [[nodiscard]] Next handle(const FromRank& from);
  void handle(const NodeLost& lost);
  void handle(const NodeBack& back);
  [[nodiscard]] Next tick();
  // The job's next run has begun.
  [[nodiscard]] Next replaced();

  struct Rank {
    bool ended = false;
    bool clean = false;  // and how
    std::string how;     // otherwise, in words
  };
  [[nodiscard]] bool all_ended() const;
  void begin_launch(const RankWatched& rank);
  void give_to(const std::string& node, std::int32_t rank);
  void ended(std::int32_t number, bool clean, const std::string& how);
  void expect_the_living();
  void measure(const JobStep& step);
  [[nodiscard]] Next end();
  [[nodiscard]] std::string how_it_ended() const;
  void tell_silence();

  Machine& m_;
  std::map<std::int32_t, Rank> ranks_;  // of the present launch, that agents have told of
  Nanoseconds told_at_{0};              // anything
  Nanoseconds joined_at_{0};            // a rank that was not known
  Nanoseconds ended_at_{0};             // the latest end
  Nanoseconds stored_at_{0};
  Nanoseconds silence_told_{-1};
  Blocks measured_;
};

}  // namespace trimtab::coordinator
