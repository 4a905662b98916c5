#pragma once

// Cuts a chain of operators into stages on consecutive devices so that (rounds * slowest stage + sum of all stages) is
// least: the iteration time of a steady pipeline of rounds + 1 microbatches. A backward dynamic program over (stages
// left, devices left, cut) minimizes the sum under a cap on the slowest stage; a branch and bound over the cap finds
// the best trade of the two and proves it. Source: the exact optima of the peer data; the formula is Aceso's (EuroSys
// 2024, section 3.4). Deterministic. One per microbatch size; not thread-safe.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::unified {

struct PartitionStage {
  std::int32_t end = 0, devices = 1;
  bool operator==(const PartitionStage&) const = default;
};

struct Partition {
  double slowest = 0, sum = 0;
  std::vector<PartitionStage> stages;
  [[nodiscard]] double objective(double rounds) const { return rounds * slowest + sum; }
};

struct PartitionSpace {
  std::int32_t operators = 1, devices = 1;
  std::int32_t stages_min = 1, stages_max = 1;
  double rounds = 0;                        // microbatches - 1
  std::vector<std::int32_t> device_counts;  // of a stage, ascending
  std::vector<bool> node_begin;             // by device, one past the last included: stages may not lie across
};

class PartitionSolver {
 public:
  // Both must outlive this. `stop` is asked now and then; once true the solver answers with what it has.
  PartitionSolver(const PartitionSpace& space, StagePricer& pricer, std::function<bool()> stop);

  // Cuts that may be used from now on: begins of stages, ascending, without 0. Of them `light` ones send little.
  void use_cuts(std::vector<std::int32_t> cuts, const std::vector<std::int32_t>& light = {});

  // Only plans whose stages have these devices, from now on; all of them where empty.
  void use_structure(const std::vector<std::int32_t>& devices);

  // Whether stages may have these devices one after the other.
  [[nodiscard]] bool may_use(const std::vector<std::int32_t>& devices) const;

  // Searches until nothing over these cuts is better than `best` by more than `tolerance` (relative), and hands every
  // plan that it meets to `found`, which answers with the objective to beat from then on. Returns a floor under the
  // objective of every plan over these cuts that is better than the one to beat (which is the floor otherwise).
  double search(double best, double tolerance, const std::function<double(const Partition&)>& found);

  // The least slowest stage and little more, over these cuts, by longest stages: stages from the end backwards, each
  // as long as the cap lets it be, bisected over the cap. Takes times to grow with a stage, which they nearly do:
  // quick, and no proof. Looks for plans better than `best` and hands them to `found`, as search() does.
  void least_pace(double best, double tolerance, const std::function<double(const Partition&)>& found);

  // A floor for any plan over any cuts, without a search.
  [[nodiscard]] double simple_floor() const;
  [[nodiscard]] std::uint64_t passes() const { return passes_; }
  [[nodiscard]] std::uint64_t prices() const { return prices_; }

 private:
  struct Cell {
    double sum = std::numeric_limits<double>::infinity();
    std::int32_t next = -1;  // index of the cut where the stage ends
    std::int32_t devices = 0;
  };
  struct Window {  // cut indices that have a finite cell
    std::int32_t first = 0, last = -1;
    [[nodiscard]] bool empty() const { return last < first; }
  };
  struct Interval {  // of the cap: slowest stages in (low, high]; `sum` is a floor of the sum there
    double low, high, sum;
    bool tight;  // a pass has found that sum
  };

  // Plans whose slowest stage is at most `cap`, of least sum, for each count of stages. Empty: there is none, or
  // stopped.
  std::vector<Partition> solve(double cap);
  // Stages that end where a suffix of one stage fewer begins, the longest and the longest from a light cut.
  struct Longest {
    struct Stage {
      std::int32_t begin = -1;  // index of its cut; -1: there is none
      std::int32_t devices = 0;
      std::int32_t next = 0;  // which stage of the suffix it ends at
    };
    Stage stages[2];
  };

  // Plans of longest stages within the cap, one for each count of stages that has one.
  std::vector<Partition> plans_within(double cap);
  [[nodiscard]] Longest longest(std::int32_t left, std::int32_t devices, double cap);
  void add_longest(std::int32_t end, std::int32_t next, std::size_t count, const StagePlace& place, double cap,
                   Longest& best);
  [[nodiscard]] double time(std::int32_t begin, std::int32_t end, const StagePlace& place);
  [[nodiscard]] bool whole_fits(std::int32_t end, std::size_t count, const StagePlace& place, double cap);
  // The first of the cuts that a stage may begin with to end there within the cap; -1 if there is none.
  [[nodiscard]] std::int32_t first_begin(const std::vector<std::int32_t>& cuts, std::int32_t end, std::size_t count,
                                         const StagePlace& place, double cap);
  [[nodiscard]] Partition trace_longest(std::int32_t stages);
  void prepare_extents(double cap);
  void prepare_reach();
  void fill(std::int32_t left, std::int32_t devices, double cap);
  void fill_cell(std::int32_t left, std::int32_t devices, std::int32_t cut, double cap);
  [[nodiscard]] bool may_place(std::int32_t first_device, std::int32_t count) const;
  [[nodiscard]] std::int32_t position(std::int32_t cut) const { return positions_[cut]; }
  [[nodiscard]] Partition trace(std::int32_t stages) const;
  Cell& cell(std::int32_t left, std::int32_t devices, std::int32_t cut);
  [[nodiscard]] const Cell& cell(std::int32_t left, std::int32_t devices, std::int32_t cut) const;
  [[nodiscard]] std::size_t plane(std::int32_t left, std::int32_t devices) const {
    return static_cast<std::size_t>(left) * (space_.devices + 1) + devices;
  }

  const PartitionSpace& space_;
  StagePricer& pricer_;
  std::function<bool()> stop_;
  bool stopped_ = false;
  std::int32_t asked_ = 0;                          // prices since the last time that stop_ was
  std::vector<bool> planes_in_use_;                 // empty: all
  std::int32_t stages_in_use_ = 0;                  // 0: all
  std::vector<std::int32_t> counts_;                // of devices that stages may have
  std::vector<std::int32_t> positions_;             // 0, the cuts, operators
  std::vector<std::int32_t> inner_, light_;         // indices of cuts, and of the light ones
  std::vector<std::vector<Cell>> cells_;            // by plane, from the window's first possible cut on
  std::vector<std::int32_t> cell_begin_;            // by plane: the cut of its first cell
  std::vector<Window> windows_;                     // by plane
  std::vector<std::vector<std::int32_t>> extents_;  // by index of count, cut: the last cut where a stage may end
  std::vector<std::vector<std::int32_t>> reach_;    // by stages, devices: the last cut that they may bring the model to
  std::vector<Longest> longest_;                    // by plane
  std::uint64_t passes_ = 0, prices_ = 0;
};

}  // namespace trimtab::tuner::unified
