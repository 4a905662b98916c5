#pragma once

// Moves of devices between stages, exchanges of tensor for data parallelism inside one, changes of the microbatch and
// of sharding: everything that gives a stage other splits.

#include <utility>

#include "strategies/aceso/primitives.hpp"

namespace trimtab::tuner {

// Stages with the devices that they shall have.
using DeviceChange = std::vector<std::pair<std::int32_t, std::int32_t>>;

// Ways in which `stage` takes devices (gives, where `take` is false): with one partner in every amount; where the space
// restricts counts of devices, also with several partners that give (take) one step each. The stage comes first.
[[nodiscard]] std::vector<DeviceChange> device_changes(const PlanSpace& space, const Candidate& from,
                                                       const std::vector<std::int32_t>& partners, std::int32_t stage,
                                                       bool take);

// Whether every stage's devices may share the microbatch, and the space allows the split.
[[nodiscard]] bool allowed(const PlanSpace& space, const Model& model, const Candidate& candidate);

// Ways for the stage to use `devices` devices: its own splits resized, then every uniform one.
[[nodiscard]] std::vector<CandidateStage> resized(const PlanSpace& space, const Model& model, std::int32_t microbatch,
                                                  const CandidateStage& stage, std::int32_t devices);
// Puts the option with the best price into the candidate. REQUIRES: options are not empty, the space has the candidate
// with each of them.
void choose_best(Evaluator& evaluator, std::int32_t stage, const std::vector<CandidateStage>& options,
                 Candidate& candidate);
// Gives the stages of the change their devices, each with the best of its splits; false where the space has none.
[[nodiscard]] bool apply_devices(Evaluator& evaluator, const DeviceChange& change, Candidate& candidate);
// The candidate with another microbatch, each stage with the best of its splits; false where the space has none.
[[nodiscard]] bool set_microbatch(Evaluator& evaluator, std::int32_t microbatch, Candidate& candidate);

// inc-dp, dec-dp, inc-tp, dec-tp: with partner stages, and inside the stage against the other kind.
void change_split(Evaluator& evaluator, const Candidate& from, const std::vector<std::int32_t>& partners,
                  std::int32_t stage, AcesoPrimitive primitive, std::vector<Move>& moves);
void change_microbatch(Evaluator& evaluator, const Candidate& from, AcesoPrimitive primitive, std::vector<Move>& moves);
void change_sharding(Evaluator& evaluator, const Candidate& from, std::int32_t stage, AcesoPrimitive primitive,
                     std::vector<Move>& moves);

}  // namespace trimtab::tuner
