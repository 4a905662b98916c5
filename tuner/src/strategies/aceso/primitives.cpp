#include "strategies/aceso/primitives.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "plan/stage_splits.hpp"
#include "strategies/aceso/operator_moves.hpp"
#include "strategies/aceso/split_moves.hpp"

namespace trimtab::tuner {
namespace {

constexpr Trend kDown = Trend::kDown;
constexpr Trend kSame = Trend::kSame;
constexpr Trend kUp = Trend::kUp;

constexpr std::array<PrimitiveRow, 12> kTable{{
    {Primitive::kIncOperators, "inc-op#", {kUp, kSame, kUp}},
    {Primitive::kDecOperators, "dec-op#", {kDown, kSame, kDown}},
    {Primitive::kIncMicrobatch, "inc-mbs", {kDown, kSame, kUp}},
    {Primitive::kDecMicrobatch, "dec-mbs", {kUp, kSame, kDown}},
    {Primitive::kIncDataParallel, "inc-dp", {kDown, kUp, kDown}},
    {Primitive::kDecDataParallel, "dec-dp", {kUp, kDown, kUp}},
    {Primitive::kIncTensorParallel, "inc-tp", {kDown, kUp, kDown}},
    {Primitive::kDecTensorParallel, "dec-tp", {kUp, kDown, kUp}},
    {Primitive::kIncRecompute, "inc-rc", {kUp, kSame, kDown}},
    {Primitive::kDecRecompute, "dec-rc", {kDown, kSame, kUp}},
    {Primitive::kIncSharding, "inc-sdp", {kSame, kUp, kDown}},
    {Primitive::kDecSharding, "dec-sdp", {kSame, kDown, kUp}},
}};

void change_recompute(const PlanSpace& space, const Candidate& from, std::int32_t stage, std::int32_t sign,
                      std::vector<Move>& moves) {
  if (!space.knobs.recompute || space.derived_recompute) return;
  const std::int32_t operators = from.stages[stage].end - from.begin_of(static_cast<std::size_t>(stage));
  for (const std::int32_t amount : {1, 2, 4}) {
    const std::int32_t further = from.stages[stage].further + sign * amount;
    if (further < 0 || further > operators) continue;
    Candidate result = from;
    result.stages[stage].further = further;
    const Primitive primitive = sign > 0 ? Primitive::kIncRecompute : Primitive::kDecRecompute;
    moves.push_back({primitive, stage, amount, {}, false, std::move(result)});
  }
}

void apply(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage, Resource resource,
           Primitive primitive, std::vector<Move>& moves) {
  switch (primitive) {
    case Primitive::kIncOperators:  // never relieves its own stage: a partner's part, or a spare stage's offer
      break;
    case Primitive::kDecOperators:
      give_operators(evaluator.space(), from, load.partners(stage, resource), stage, moves);
      break;
    case Primitive::kIncMicrobatch:
    case Primitive::kDecMicrobatch:
      change_microbatch(evaluator, from, primitive, moves);
      break;
    case Primitive::kIncDataParallel:
    case Primitive::kDecDataParallel:
    case Primitive::kIncTensorParallel:
    case Primitive::kDecTensorParallel:
      change_split(evaluator, from, load.partners(stage, resource), stage, primitive, moves);
      break;
    case Primitive::kIncRecompute:
      change_recompute(evaluator.space(), from, stage, 1, moves);
      break;
    case Primitive::kDecRecompute:
      change_recompute(evaluator.space(), from, stage, -1, moves);
      break;
    case Primitive::kIncSharding:
    case Primitive::kDecSharding:
      change_sharding(evaluator, from, stage, primitive, moves);
      break;
  }
}

std::int32_t recomputed_operators(Evaluator& evaluator, const Candidate& candidate, std::size_t stage) {
  std::int32_t count = 0;
  for (const Range& range : evaluator.stage(candidate, stage).recompute_ranges) count += range.size();
  return count;
}

}  // namespace

std::span<const PrimitiveRow> primitive_table() {
  return kTable;
}

const char* name_of(Primitive primitive) {
  return kTable[static_cast<std::size_t>(primitive)].name;
}

bool allowed(const PlanSpace& space, const Model& model, const Candidate& candidate) {
  const std::int32_t first = candidate.stages.front().devices;
  std::int32_t device = 0;
  for (const CandidateStage& stage : candidate.stages) {
    if (stage.devices < 1 || !space.allows_devices(device, stage.devices)) return false;
    if (!space.knobs.uneven_stages && stage.devices != first) return false;
    device += stage.devices;
    if (!allowed_splits(space, model, candidate.microbatch, stage)) return false;
  }
  return true;
}

std::vector<Move> eligible_moves(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage,
                                 Resource resource) {
  std::vector<Move> moves;
  for (const PrimitiveRow& row : primitive_table()) {
    if (row.trends[static_cast<std::size_t>(resource)] != Trend::kDown) continue;
    // Where everything fits, memory is relieved to recompute less.
    if (load.fits && row.primitive == Primitive::kIncRecompute) continue;
    apply(evaluator, from, load, stage, resource, row.primitive, moves);
  }
  return moves;
}

std::vector<Move> spare_moves(const Evaluator& evaluator, const Candidate& from, std::int32_t stage) {
  std::vector<Move> moves;
  take_operators(evaluator.space(), from, stage, moves);
  change_recompute(evaluator.space(), from, stage, -1, moves);
  return moves;
}

void attach_recompute(Evaluator& evaluator, const Candidate& from, Move& move) {
  if (move.primitive == Primitive::kIncRecompute || move.primitive == Primitive::kDecRecompute) return;
  for (std::size_t s = 0; s < from.stages.size(); ++s) {
    const std::int32_t before = recomputed_operators(evaluator, from, s);
    const std::int32_t after = recomputed_operators(evaluator, move.result, s);
    if (after == before) continue;
    const Primitive primitive = after > before ? Primitive::kIncRecompute : Primitive::kDecRecompute;
    move.partners.push_back({static_cast<std::int32_t>(s), primitive, std::abs(after - before)});
  }
}

std::string move_text(const Move& move) {
  const bool whole_plan = move.primitive == Primitive::kIncMicrobatch || move.primitive == Primitive::kDecMicrobatch;
  std::string text = name_of(move.primitive);
  if (whole_plan) {
    text += " to " + std::to_string(move.amount);
  } else {
    text += " stage " + std::to_string(move.stage) + " (" + std::to_string(move.amount) + ")";
  }
  for (const Partner& partner : move.partners) {
    text += std::string(" + ") + name_of(partner.primitive) + " stage " + std::to_string(partner.stage);
    if (partner.amount > 0) text += " (" + std::to_string(partner.amount) + ")";
  }
  return move.rebalanced ? text + " + op# of all stages" : text;
}

}  // namespace trimtab::tuner
