#pragma once

// What a solver over cuts asks of a cost model, for one microbatch size: times of stages, at their best split and
// recompute, and a floor under them that grows with the stage. One per search; not thread-safe.

#include <memory>

#include "plan/candidate.hpp"

namespace trimtab::tuner {

// Where a stage lies: its devices, and how many stages are left from it to the end, itself included.
struct StagePlace {
  std::int32_t first_device = 0, devices = 1, left = 1;
};

class StagePricer {
 public:
  virtual ~StagePricer() = default;
  // ms of a microbatch in the stages [begin, e) for every e of `ends` (ascending), infinite where none fits. Valid
  // until the next call.
  virtual std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                        const StagePlace& place) = 0;
  // The stage behind a time.
  virtual CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) = 0;
  // From now on times and stages may be those of a smaller set of ways to run a stage, which are priced sooner.
  enum class Effort : std::uint8_t { kLeast, kLess, kFull };
  virtual void use(Effort /*effort*/) {}
  // No time of the stage on so many devices is less, wherever it lies; never falls when the stage grows at either end.
  [[nodiscard]] virtual double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const = 0;
  // Whether a time is the least of all ways to run the stage, so that a search over all cuts is a proof.
  [[nodiscard]] virtual bool exact() const { return true; }
  // Whether rounds * slowest + sum only estimates the iteration's time.
  [[nodiscard]] virtual bool estimates() const { return false; }
  // Whether stages may have this many devices at all.
  [[nodiscard]] virtual bool allows(std::int32_t devices) const = 0;
  // The sum over all operators of the least time, and of the least time times devices: floors for any plan.
  [[nodiscard]] virtual double least_time() const = 0;
  [[nodiscard]] virtual double least_device_time() const = 0;
};

// Of each microbatch size one.
class StagePricers {
 public:
  virtual ~StagePricers() = default;
  // Null where the model has none for this microbatch. Must not outlive the evaluator that offers them.
  virtual std::unique_ptr<StagePricer> stage_pricer(std::int32_t microbatch) = 0;
  // The same with times that no way to run a stage beats, for bounds; null where stage_pricer() is exact, or none is
  // known.
  virtual std::unique_ptr<StagePricer> floor_pricer(std::int32_t /*microbatch*/) { return nullptr; }
};

// Who solves a stage anew, operator by operator.
class StageSolver {
 public:
  virtual ~StageSolver() = default;
  // Ways to run a stage of the candidate that fit, each operator split in its own way, the most promising first. None
  // where the space has neither mixed splits nor memory switches.
  virtual std::vector<CandidateStage> stage_proposals(const Candidate& candidate, std::size_t stage) = 0;
};

// Who chooses a stage's memory switches.
class SwitchChooser {
 public:
  virtual ~SwitchChooser() = default;
  // A stage of the candidate with the memory switches that are best for its memory, its recompute among them (those of
  // least memory where none fit). Nothing where the space has no switches, its segments cut a layer, or a cost is
  // missing.
  virtual std::optional<CandidateStage> with_switches(const Candidate& candidate, std::size_t stage) = 0;
};

}  // namespace trimtab::tuner
