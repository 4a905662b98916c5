#pragma once

// Aceso's reconfiguration primitives with the resource trends of its Table 1, and two more of the same kind for sharded
// states. Recompute is chosen anew with every primitive, at the least time that fits the stage's memory (Aceso, section
// 4.3): inc-rc enables what needs memory, dec-rc follows where memory comes free, and both are named as its partners.
// Operators move to a neighbour, or to a distant stage by relay through those between.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/candidate.hpp"
#include "strategies/aceso/bottleneck.hpp"

namespace trimtab::tuner {

enum class AcesoPrimitive : std::uint8_t {
  kIncOperators,
  kDecOperators,
  kIncMicrobatch,
  kDecMicrobatch,
  kIncDataParallel,
  kDecDataParallel,
  kIncTensorParallel,
  kDecTensorParallel,
  kIncRecompute,
  kDecRecompute,
  kIncSharding,  // not of the paper
  kDecSharding,
};

enum class Trend : std::int8_t { kDown = -1, kSame = 0, kUp = 1 };

struct PrimitiveRow {
  AcesoPrimitive primitive;
  const char* name;
  std::array<Trend, kResources> trends;  // computation, communication, memory of the stage that it is applied to
};

[[nodiscard]] std::span<const PrimitiveRow> primitive_table();
[[nodiscard]] const char* name_of(AcesoPrimitive primitive);

// What a primitive needed elsewhere: a partner stage and its primitive.
struct Partner {
  std::int32_t stage = 0;
  AcesoPrimitive primitive = AcesoPrimitive::kIncOperators;
  std::int32_t amount = 0;  // recomputed operators; 0 where the move's own amount says it
};

// One applied primitive.
struct Move {
  AcesoPrimitive primitive = AcesoPrimitive::kDecOperators;
  std::int32_t stage = 0;
  std::int32_t amount = 1;  // operators, devices, recomputed operators; the new microbatch or degree
  std::vector<Partner> partners;
  bool rebalanced = false;  // operators were moved between all stages on top
  Candidate result;
};

// Every application that relieves `resource` of the stage, partner stages with most to spare first.
[[nodiscard]] std::vector<Move> eligible_moves(Evaluator& evaluator, const Candidate& from, const Load& load,
                                               std::int32_t stage, Resource resource);
// What a stage with something to spare can do for the others: take operators (inc-op#), give memory for time (dec-rc).
[[nodiscard]] std::vector<Move> spare_moves(const Evaluator& evaluator, const Candidate& from, std::int32_t stage);

// "dec-op# stage 1 (2), inc-op# stage 0"
[[nodiscard]] std::string move_text(const Move& move);

// Adds the recompute that came along with the move (Aceso, section 4.3) to its partners: inc-rc or dec-rc of every
// stage that recomputes more or fewer operators than in `from`.
void attach_recompute(Evaluator& evaluator, const Candidate& from, Move& move);

// The candidate with all cuts between the two stages shifted so that `stage` gives `amount` allowed cut positions of
// operators towards `partner`; false where a stage would become empty.
[[nodiscard]] bool shift_operators(const PlanSpace& space, std::int32_t stage, std::int32_t partner,
                                   std::int32_t amount, Candidate& candidate);

// Stage `stage` gives so many positions to the next one, or takes from it where `by` is negative.
[[nodiscard]] bool shift_cut(const PlanSpace& space, std::size_t stage, std::int32_t by, Candidate& candidate);

// dec-op#: to the first of `partners` on either side and to both neighbours, in growing amounts.
void give_operators(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                    std::int32_t stage, std::vector<Move>& moves);
// inc-op#: from either neighbour.
void take_operators(const PlanSpace& space, const Candidate& from, std::int32_t stage, std::vector<Move>& moves);

}  // namespace trimtab::tuner
