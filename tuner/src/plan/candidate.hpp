#pragma once

// A plan as the search sees it: cuts, device counts, how each stage splits its devices, and the microbatch. Devices go
// to stages in order; what is recomputed follows from the stage's memory unless it is spelled out. Plain values.

#include "plan/plan_space.hpp"

namespace trimtab::tuner {

// Operators up to `end` that are split alike; begins where the one before ends.
struct CandidateSegment {
  std::int32_t end = 0;
  Split split;
  bool operator==(const CandidateSegment&) const = default;
};

struct CandidateStage {
  std::int32_t end = 0;  // one past the last operator; begins where the stage before ends
  std::int32_t devices = 1;
  std::int32_t further = 0;                // operators recomputed beyond what memory needs (inc-rc)
  Split split;                             // of the whole stage, where `segments` is empty
  std::vector<CandidateSegment> segments;  // mixed splits inside the stage, ascending; the last ends with the stage
  std::vector<Range> alternate;            // operators split along their second choice, normalized
  std::optional<std::vector<Range>> recompute;  // spelled out, normalized; none = by the cost model's rule
  std::optional<Switches> switches;             // memory switches, of whole layers; with them recompute is spelled out
  bool operator==(const CandidateStage&) const = default;
};

// All devices are replicas.
[[nodiscard]] inline CandidateStage replicated_stage(std::int32_t end, std::int32_t devices) {
  CandidateStage stage;
  stage.end = end;
  stage.devices = devices;
  stage.split.dp = devices;
  return stage;
}

struct Candidate {
  std::int32_t microbatch = 1;
  // Microbatches of the warm-up that are forwarded in halves; none = as many as is fastest, where the space slices.
  std::optional<std::int32_t> sliced_microbatches;
  std::optional<SubBatches> sub_batches;  // none = the fastest of the space
  // Of interleaved plans: groups of as many devices, which stages go round, their recompute spelled out. 0 = none.
  std::int32_t seats = 0;
  std::vector<CandidateStage> stages;

  [[nodiscard]] std::int32_t begin_of(std::size_t stage) const { return stage == 0 ? 0 : stages[stage - 1].end; }
  [[nodiscard]] std::int32_t first_device_of(std::size_t stage) const {
    std::int32_t device = 0;
    const std::size_t first = seats > 0 ? stage - stage % static_cast<std::size_t>(seats) : 0;
    for (std::size_t s = first; s < stage; ++s) device += stages[s].devices;
    return device;
  }
  bool operator==(const Candidate&) const = default;
};

[[nodiscard]] std::uint64_t hash_of(const Candidate& candidate);

// The segments of a stage, one where its split is uniform.
[[nodiscard]] std::vector<CandidateSegment> segments_of(const CandidateStage& stage);
// Whether its microbatches may run in two sub-batches: with tensor-parallel ranks, an even number of samples on every
// replica and no memory switches.
[[nodiscard]] bool may_sub_batch(const Candidate& candidate);
// How many whole microbatches may be sliced: none where a replica of some segment has an odd number of samples, or a
// stage has memory switches.
[[nodiscard]] std::int32_t most_sliced(const Candidate& candidate, const Model& model);
// Gives the stage another number of devices: each split keeps its tp where that divides them and turns to replicas
// alone where it does not.
void set_devices(CandidateStage& stage, std::int32_t devices);
// Drops what lies outside of [begin, stage.end) after a cut has moved: segments, alternate and recompute ranges. Moved
// in operators take the split of the segment beside them.
void fit_to_range(std::int32_t begin, CandidateStage& stage);

// The shape of a plan, without its recompute, slices and sub-batches; nothing where the space cannot
// express it (devices out of order, a split that the space lacks, another schedule).
[[nodiscard]] std::optional<Candidate> candidate_of(const Plan& plan, const PlanSpace& space);

// `recompute` by stage; `sequence` is the space's.
[[nodiscard]] Plan plan_of(const Candidate& candidate, const Model& model,
                           const std::vector<std::vector<Range>>& recompute, const SequenceShare& sequence = {});

// One form for candidates that mean the same plan, so that a search looks at each meaning once. Pure.

// Joins equal segments, drops sharding over one replica and a degree that says all replicas, drops second dimensions of
// operators that are not split or have only one.
void canonicalize(const Model& model, Candidate& candidate);

// Equal for candidates of equal canonical form.
[[nodiscard]] std::uint64_t semantic_hash_of(const Model& model, const Candidate& candidate);

// The splits of a candidate's stage as they come about, operator by operator or layer by layer. Pure.

// Operators up to `end` get this split, behind those that have one: neighbours of one split are one segment.
void append_split(CandidateStage& stage, std::int32_t end, const Split& split);
// Once all operators have theirs: the first is the stage's, and segments stay only where splits differ.
void settle_splits(CandidateStage& stage);
// Whether the space has all splits of the stage.
[[nodiscard]] bool allowed_splits(const PlanSpace& space, const Model& model, std::int32_t microbatch,
                                  const CandidateStage& stage);

}  // namespace trimtab::tuner
