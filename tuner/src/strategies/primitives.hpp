#pragma once

// Aceso's reconfiguration primitives (Table 1) for what this plan space has: operators of a stage, microbatch, data
// parallelism (a move of devices between stages) and recompute. Choosing recompute anew goes with every other
// primitive.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bottleneck.hpp"
#include "candidate.hpp"

namespace trimtab::tuner {

enum class Primitive : std::uint8_t {
  kIncOperators,
  kDecOperators,
  kIncMicrobatch,
  kDecMicrobatch,
  kIncDataParallel,
  kDecDataParallel,
  kIncRecompute,
  kDecRecompute,
};

enum class Trend : std::int8_t { kDown = -1, kSame = 0, kUp = 1 };

struct PrimitiveRow {
  Primitive primitive;
  const char* name;
  std::array<Trend, kResources> trends;  // of the stage that it is applied to
};

[[nodiscard]] std::span<const PrimitiveRow> primitive_table();

// One applied primitive.
struct Move {
  Primitive primitive = Primitive::kDecOperators;
  std::int32_t stage = 0;
  std::int32_t partner = -1;  // -1 where it needs none
  std::int32_t amount = 1;
  Candidate result;
};

// Every application that relieves `resource` of the stage, partner stages with most to spare first.
[[nodiscard]] std::vector<Move> eligible_moves(Evaluator& evaluator, const Candidate& from, const Load& load,
                                               std::int32_t stage, Resource resource);

// "dec-op# stage 1 -> stage 0 (2)"
[[nodiscard]] std::string move_text(const Move& move);

// The candidate with all cuts between the two stages shifted so that `stage` gives `amount` allowed cut positions of
// operators towards `partner`; false where a stage would become empty.
[[nodiscard]] bool shift_operators(const PlanSpace& space, std::int32_t stage, std::int32_t partner,
                                   std::int32_t amount, Candidate& candidate);
// Whether every stage's devices may share the microbatch, and the space allows the split.
[[nodiscard]] bool allowed(const PlanSpace& space, const Model& model, const Candidate& candidate);

}  // namespace trimtab::tuner
