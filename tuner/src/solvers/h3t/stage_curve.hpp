#pragma once

// A stage's least time against its memory limit. Its convex hull is found corner by corner, as limits are asked for:
// each corner is a shortest path with one price of memory in front of the last layer, where levels are highest. The
// hull is a bound (Lagrangian duality); an answer is a corner, or one corner's switches in front and the next one's
// behind. One per thread; what it finds it keeps.

#include <vector>

#include "solvers/h3t/relaxation.hpp"
#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {

struct StageChoice {
  bool feasible = false;
  Solution best;    // of all microbatches; with the least memory where nothing fits
  Ticks bound = 0;  // where feasible: no synchronized switches that fit take less

  [[nodiscard]] bool proven() const { return feasible && bound == best.outcome.runtime; }
  [[nodiscard]] double gap() const {
    const auto ticks = static_cast<double>(best.outcome.runtime);
    return ticks > 0 ? (ticks - static_cast<double>(bound)) / ticks : 0;
  }
};

class StageCurve {
 public:
  // The problem's device limit says nothing here. Keeps the layers.
  StageCurve(const Problem& problem, TransitionTable& table);
  StageCurve(const StageCurve&) = delete;
  StageCurve& operator=(const StageCurve&) = delete;

  [[nodiscard]] StageChoice at(Bytes device_limit);
  // Paths over the layers that were looked for.
  [[nodiscard]] std::uint64_t paths() const { return paths_; }

 private:
  using Path = std::vector<const Transition*>;
  struct Corner {
    Path path;
    std::vector<Label> labels;  // at every boundary
    std::vector<std::uint8_t> states;
    double ticks = 0;         // without waits for parameters that are written back, but the last layer's
    double memory = 0;        // of the last layer's segments
    bool edge_known = false;  // no corner lies between this one and the next
  };
  struct Best {
    Ticks ticks = 0;
    Switching switching;
  };

  [[nodiscard]] Corner corner_at(double price);
  [[nodiscard]] Corner corner_of(std::int32_t start, Path path) const;
  // The first corner that needs no more than the limit; more are found first.
  [[nodiscard]] std::size_t first_within(double limit);
  [[nodiscard]] double bound_at(double limit, std::size_t within) const;
  [[nodiscard]] bool fits(const Label& end, Bytes limit) const;
  void consider(const Corner& corner, Bytes limit, Best& best) const;
  void consider_crossings(const Corner& front, const Corner& behind, Bytes limit, Best& best) const;
  void consider_least(Bytes limit, Best& best);

  std::vector<LayerProfile> layers_;
  Problem problem_;
  StepProgram program_;
  std::vector<Corner> corners_;  // ascending in ticks, descending in memory
  double steepest_ = 0;          // ns per byte, the highest price that was asked for
  std::uint64_t paths_ = 0;
  Switching least_;  // with the least peak, once it was needed
  bool least_known_ = false;
};

}  // namespace trimtab::tuner::h3t
