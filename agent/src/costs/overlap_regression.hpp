#pragma once

// How much work is slowed down by what runs beside it, from a live job. Pure. Single-threaded.
//
// Model. A piece of work takes `base` alone. While something runs beside it, it advances at 1/slowdown of its speed.
// With f the fraction of its work that was done beside, its duration is
//
//     duration = base * (1 + (slowdown - 1) * f).
//
// f is not seen, but the time o spent beside is: o = base * f * slowdown. So
//
//     duration = base + gamma * o,    gamma = 1 - 1/slowdown,
//
// exactly, for full and for partial overlap; slowdown = 1 / (1 - gamma). (tuner.md's rule, computation c beside
// communication k, is this with slowdown alpha for c and beta for k.)
//
// Estimate. Occurrences of one subject (a kernel of one signature, a collective of one size) beside one thing are taken
// in blocks. A block has its own base, the mean of the occurrences alone that came between its first and its last, so
// blocks are independent and a drifting clock cancels. gamma = sum(duration - base) / sum(o): the ratio is not biased
// by partial overlap, where a mean of each occurrence's own ratio would be. A block's size is what its predecessors
// needed for a standard error of gamma (of both sums, by the delta method) below `block_error`, never what its own
// values suggest: to stop where it looks sure would favour small values. So a pair's first block is a pilot and gives
// no value. Of the others the slowdown, corrected for the curvature of 1/(1 - gamma), is one value of the cost, in ppm.
// Values of several signatures and ranks merge like any cost, and interval_95 of them holds without knowing how they
// were made. Durations beyond `outlier` times the mean alone are left out and
// counted, of both kinds alike: else the tail that every duration has would be in one sum only. Where many in a row
// are, the base has changed (a clock was lowered) and is learned anew.
//
// Not told apart: waiting for peers is part of a collective's duration, so beta holds for ranks that arrive together.

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "schema/statistics.hpp"

namespace trimtab::agent {

struct OverlapOptions {
  double block_error = 0.04;            // of gamma
  std::uint64_t block_least = 8;        // occurrences alone, and beside
  std::uint64_t block_most = 1U << 14;  // of a block that does not become sure: dropped and counted
  double outlier = 8;
  std::size_t max_pairs = 4096;
};

struct OverlapCounters {
  std::uint64_t alone = 0;
  std::uint64_t beside = 0;
  std::uint64_t outliers = 0;
  std::uint64_t blocks = 0;
  std::uint64_t undecided = 0;  // blocks that did not become sure
  std::uint64_t overflow = 0;   // occurrences of pairs for which there was no room
};

class OverlapRegression final {
 public:
  // A number that the caller gives out: what was measured.
  using Subject = std::uint32_t;

  explicit OverlapRegression(OverlapOptions options = {}) : options_(options) {}

  void alone(Subject subject, std::uint64_t duration_ns);
  // `beside_ns` of `duration_ns`, above 0. `cost`: what ran beside it, and where the values go; subjects may share it.
  void beside(Subject subject, std::uint32_t cost, std::uint64_t duration_ns, std::uint64_t beside_ns);

  // Slowdowns in ppm since the last take, by cost.
  [[nodiscard]] std::map<std::uint32_t, Statistics> take() { return std::exchange(values_, {}); }
  // What ran until now says nothing of what comes: half-made blocks go.
  void restart();
  [[nodiscard]] const OverlapCounters& counters() const { return counters_; }

 private:
  struct Moments {  // Welford
    double count = 0;
    double mean = 0;
    double squares = 0;
    void add(double value);
    [[nodiscard]] double variance() const { return count > 1 ? squares / (count - 1) : 0; }
  };
  struct Block {
    Moments alone;
    double count = 0;  // occurrences beside; sums of their durations d, times beside o, and products
    double d = 0, o = 0, dd = 0, oo = 0, od = 0;
  };
  struct Pair {
    std::uint32_t cost = 0;
    Block block;
    double least_alone = 0;  // how many a block has; 0: the pilot
    double least_beside = 0;
  };
  struct SubjectState {
    Moments base;               // all that ran alone, for the outliers
    std::uint32_t refused = 0;  // in a row
    std::vector<Pair> pairs;
  };
  void close(Pair& pair);
  void value(Pair& pair);

  OverlapOptions options_;
  OverlapCounters counters_;
  std::unordered_map<Subject, SubjectState> subjects_;
  std::size_t pairs_ = 0;
  std::map<std::uint32_t, Statistics> values_;
};

}  // namespace trimtab::agent
