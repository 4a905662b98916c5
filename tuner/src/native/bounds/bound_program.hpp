#pragma once

// A lower bound over all plans of one microbatch size: a backward dynamic program over (stages left, first device,
// first operator) on floors of the last stages (suffix_floor.hpp), of which each state keeps those that none other is
// below in everything. Deterministic. One use; not thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "native/bounds/stage_floors.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner {

struct BoundLimits {
  double best_ms = 0;           // floors from here on are of no interest
  bool idle_devices = false;    // the last devices may be left idle
  std::uint64_t most_ways = 0;  // of stages that may be looked at
  std::size_t most_cuts = 0;    // that are told apart: stages lose what lies between two of more
};

// A plan behind a floor: near the best, though its own time is not known.
struct FlooredPlan {
  double ms = 0;
  Candidate candidate;  // a stage whose split the floors leave open has dp 0
};

class BoundProgram {
 public:
  // All must outlive this. `summed` is of the same microbatch: what it says of the operators before a stage cuts the
  // program short. `halves` are transfers of half a microbatch, or, where none is sliced, the same as `transfers`.
  BoundProgram(const PlanSpace& space, StageFloors& stages, TransferFloors& transfers, TransferFloors& halves,
               const SummedStageFloors& summed, std::int32_t microbatches, const BoundLimits& limits)
      : space_(space),
        stages_(stages),
        transfers_(transfers),
        halves_(halves),
        summed_(summed),
        microbatches_(microbatches),
        limits_(limits) {}

  // best_ms where no plan is faster; nothing where there is too much to look at.
  std::optional<double> run();
  [[nodiscard]] std::uint64_t ways() const { return ways_; }
  // The plans behind what a finished program keeps of whole pipelines, at most `most` of each count of stages.
  [[nodiscard]] std::vector<FlooredPlan> plans(std::int32_t microbatch, std::size_t most);

 private:
  // A floor and the first of its stages: where it ends, and which floor of those behind it it has.
  struct Kept {
    SuffixFloor floor;
    std::uint32_t to = 0, after = 0;
    std::int32_t devices = 0, dp = 0, tp = 0;
  };
  using Floors = std::vector<Kept>;

  static void merge_nearest(Floors& floors);
  [[nodiscard]] Candidate trace(std::int32_t left, const Kept& first);

  void choose_positions();
  void fill(std::int32_t left, std::int32_t device, std::size_t from);
  void extend(std::int32_t left, const PlacedStage& place, std::size_t from, std::size_t to);
  void keep(const Kept& kept, std::int32_t begin, std::int32_t device, Floors& floors) const;
  // Whether stages from `begin` on, at least on the devices from `device` on, cannot be part of a plan below best_ms.
  [[nodiscard]] bool hopeless(std::int32_t begin, std::int32_t device) const;
  // Least time between the stages on either side of a cut that the position stands for.
  TransferFloor transfer(const PlacedStage& place, std::size_t to, const StageWay& way);
  [[nodiscard]] bool ends_at(std::int32_t device) const {
    return limits_.idle_devices ? device <= space_.devices : device == space_.devices;
  }
  Floors& at(std::int32_t left, std::int32_t device, std::size_t position) {
    return floors_[(static_cast<std::size_t>(left) * (space_.devices + 1) + device) * positions_.size() + position];
  }

  const PlanSpace& space_;
  StageFloors& stages_;
  TransferFloors& transfers_;
  TransferFloors& halves_;
  const SummedStageFloors& summed_;
  std::int32_t microbatches_;
  BoundLimits limits_;
  std::uint64_t ways_ = 0;
  std::vector<std::int32_t> positions_;  // 0, cuts that each stand for those up to the next one, operators
  std::vector<std::int32_t> inside_;     // by position: an operator that no stage from there on begins after
  std::vector<Floors> floors_;           // by stages left, first device, position
};

}  // namespace trimtab::tuner
