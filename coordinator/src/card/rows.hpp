#pragma once

// The steps that all ranks tell, side by side: a row is a step, so what slows the whole machine for some steps slows
// all cells of a row alike. Pure.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "card/evidence.hpp"
#include "card/stretches.hpp"

namespace trimtab::coordinator {

// One rank in one step, in milliseconds.
struct Cell {
  double wall = 0;
  double data = 0;
  double communication = 0;
  double forward = 0;
  double passes = 0;     // forward and backward
  double recompute = 0;  // inside of them
  double optimizer = 0;
  // What it did itself: neither data nor communication. Without the time that other processes took from it, where all
  // ranks tell that.
  double own = 0;
  double stolen = 0;  // by them
  double idle = 0;    // of its device
  double copies = 0;
};

class Rows {
 public:
  // Of the host's parts. Ranks that tell no parts, or less than half as many steps as most, are left out.
  [[nodiscard]] static Rows of_steps(const JobEvidence& job);
  // Of looks at devices: the latest of each rank side by side.
  [[nodiscard]] static Rows of_devices(const JobEvidence& job);

  [[nodiscard]] std::size_t count() const { return ranks_.empty() ? 0 : cells_.size() / ranks_.size(); }
  [[nodiscard]] const std::vector<std::int32_t>& ranks() const { return ranks_; }
  // REQUIRES: row < count(), place < ranks().size().
  [[nodiscard]] const Cell& at(std::size_t row, std::size_t place) const { return cells_[row * ranks_.size() + place]; }
  // For findings. Of a trace all steps that there are.
  [[nodiscard]] bool are_enough() const { return count() >= least_; }
  // The time that other processes took is out of `own`.
  [[nodiscard]] bool undisturbed() const { return undisturbed_; }

  // The cells of some ranks. REQUIRES: places < ranks().size(), upwards.
  [[nodiscard]] Rows of_places(const std::vector<std::size_t>& places) const;
  // Sums of rows that follow each other: some twenty rows in all.
  [[nodiscard]] Rows merged() const;

  // One value a row, over its cells.
  [[nodiscard]] double largest(std::size_t row, double Cell::*member) const;
  [[nodiscard]] double least(std::size_t row, double Cell::*member) const;
  [[nodiscard]] double mean(std::size_t row, double Cell::*member) const;
  [[nodiscard]] double wall(std::size_t row) const { return mean(row, &Cell::wall); }
  [[nodiscard]] std::vector<double> series(const std::function<double(std::size_t row)>& value) const;

 private:
  void add(const std::vector<Cell>& row);
  void take_stolen_out();

  std::vector<std::int32_t> ranks_;
  std::size_t least_ = kLeastRows;
  std::vector<Cell> cells_;
  bool undisturbed_ = false;
};

}  // namespace trimtab::coordinator
