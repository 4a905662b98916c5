#pragma once

// The least time that frees at least so many bytes, where each unit of several classes of equal units is run in one of
// its class's ways or left alone: the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger 2004, chapter 11),
// by branch and bound over its linear relaxation. Pure.

#include <cstdint>
#include <vector>

namespace trimtab::tuner {

struct CoverWay {
  double time = 0, freed = 0;
};

struct CoverClass {
  std::vector<CoverWay> ways;  // freed above 0
  std::int32_t units = 0;
};

class CheapestCover {
 public:
  using Counts = std::vector<std::vector<std::int32_t>>;  // units by class and way

  explicit CheapestCover(std::vector<CoverClass> classes);

  // The most that can be freed, and the ways that free it.
  [[nodiscard]] double capacity() const { return capacity_after_[0]; }
  [[nodiscard]] Counts freest() const;
  // No choice that frees `need` takes less; infinite where none does.
  [[nodiscard]] double relaxed(double need);
  // Improves `best` and `counts` where some choice takes less; visits `nodes` at most and takes those that it has
  // visited off it. False where it had too few to know that none takes less.
  bool solve(double need, double& best, Counts& counts, std::int64_t& nodes);

 private:
  // From one way of a class to the next one of its lower convex hull.
  struct Increment {
    double time = 0, freed = 0;
    std::size_t of = 0;  // the class
  };
  using Increments = std::vector<Increment>;  // least time for a byte first

  [[nodiscard]] Increments hull(std::size_t c, std::size_t first_way) const;
  [[nodiscard]] double relaxed(std::size_t c, std::size_t way, std::int32_t left, double need);
  void visit(std::size_t c, std::size_t way, std::int32_t left, double need, double time);

  std::vector<CoverClass> classes_;             // by the least time for a byte, ways too
  std::vector<std::size_t> number_;             // of the class as it was given
  std::vector<std::vector<std::size_t>> ways_;  // of the way as it was given
  std::vector<std::vector<Increments>> hulls_;  // by class and first way; empty until it is asked for
  std::vector<std::vector<double>> freest_;     // of the ways from one on
  Increments all_;
  std::vector<double> capacity_after_;
  Counts counts_;
  double* best_ = nullptr;
  Counts* best_counts_ = nullptr;
  std::int64_t nodes_ = 0;
};

}  // namespace trimtab::tuner
