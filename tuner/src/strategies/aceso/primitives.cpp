#include "strategies/aceso/primitives.hpp"

#include <algorithm>
#include <cstdlib>

#include "plan/candidate.hpp"
#include "strategies/aceso/split_moves.hpp"

namespace trimtab::tuner {

namespace {

constexpr Trend kDown = Trend::kDown;
constexpr Trend kSame = Trend::kSame;
constexpr Trend kUp = Trend::kUp;

constexpr std::array<PrimitiveRow, 12> kTable{{
    {AcesoPrimitive::kIncOperators, "inc-op#", {kUp, kSame, kUp}},
    {AcesoPrimitive::kDecOperators, "dec-op#", {kDown, kSame, kDown}},
    {AcesoPrimitive::kIncMicrobatch, "inc-mbs", {kDown, kSame, kUp}},
    {AcesoPrimitive::kDecMicrobatch, "dec-mbs", {kUp, kSame, kDown}},
    {AcesoPrimitive::kIncDataParallel, "inc-dp", {kDown, kUp, kDown}},
    {AcesoPrimitive::kDecDataParallel, "dec-dp", {kUp, kDown, kUp}},
    {AcesoPrimitive::kIncTensorParallel, "inc-tp", {kDown, kUp, kDown}},
    {AcesoPrimitive::kDecTensorParallel, "dec-tp", {kUp, kDown, kUp}},
    {AcesoPrimitive::kIncRecompute, "inc-rc", {kUp, kSame, kDown}},
    {AcesoPrimitive::kDecRecompute, "dec-rc", {kDown, kSame, kUp}},
    {AcesoPrimitive::kIncSharding, "inc-sdp", {kSame, kUp, kDown}},
    {AcesoPrimitive::kDecSharding, "dec-sdp", {kSame, kDown, kUp}},
}};

void change_recompute(const PlanSpace& space, const Candidate& from, std::int32_t stage, AcesoPrimitive primitive,
                      std::vector<Move>& moves) {
  if (!space.knobs.recompute || space.derived_recompute) return;
  const std::int32_t operators = from.stages[stage].end - from.begin_of(static_cast<std::size_t>(stage));
  for (const std::int32_t amount : {1, 2, 4}) {
    const std::int32_t further =
        from.stages[stage].further + (primitive == AcesoPrimitive::kIncRecompute ? amount : -amount);
    if (further < 0 || further > operators) continue;
    Candidate result = from;
    result.stages[stage].further = further;
    moves.push_back({primitive, stage, amount, {}, false, std::move(result)});
  }
}

// kIncOperators never relieves its own stage: it is a partner's part, or a spare stage's offer.
void apply(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage, Resource resource,
           AcesoPrimitive primitive, std::vector<Move>& moves) {
  switch (primitive) {
    case AcesoPrimitive::kIncOperators:
      break;
    case AcesoPrimitive::kDecOperators:
      give_operators(evaluator.space(), from, load.partners(stage, resource), stage, moves);
      break;
    case AcesoPrimitive::kIncMicrobatch:
    case AcesoPrimitive::kDecMicrobatch:
      change_microbatch(evaluator, from, primitive, moves);
      break;
    case AcesoPrimitive::kIncRecompute:
    case AcesoPrimitive::kDecRecompute:
      change_recompute(evaluator.space(), from, stage, primitive, moves);
      break;
    case AcesoPrimitive::kIncSharding:
    case AcesoPrimitive::kDecSharding:
      change_sharding(evaluator, from, stage, primitive, moves);
      break;
    default:
      change_split(evaluator, from, load.partners(stage, resource), stage, primitive, moves);
  }
}

std::int32_t recomputed_operators(Evaluator& evaluator, const Candidate& candidate, std::size_t stage) {
  std::int32_t count = 0;
  for (const Range& range : evaluator.stage(candidate, stage).recompute_ranges) count += range.size();
  return count;
}

// How many cut positions to move at once: all small numbers, then fewer and fewer.
constexpr std::array kAmounts{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::array kTaken{1, 2, 4, 8};

std::ptrdiff_t cut_index(const PlanSpace& space, std::int32_t cut) {
  return std::lower_bound(space.cuts.begin(), space.cuts.end(), cut) - space.cuts.begin();
}

bool is_neighbour(std::int32_t a, std::int32_t b) {
  return a == b - 1 || a == b + 1;
}

std::vector<std::int32_t> receivers(const std::vector<std::int32_t>& partners, std::int32_t stage) {
  std::vector<std::int32_t> chosen;
  for (const std::int32_t partner : partners) {
    const bool first_on_side = std::none_of(chosen.begin(), chosen.end(),
                                            [&](std::int32_t other) { return (other < stage) == (partner < stage); });
    if (is_neighbour(partner, stage) || first_on_side) chosen.push_back(partner);
  }
  return chosen;
}

// The stages between pass on as many as they get.
std::vector<Partner> relay(std::int32_t stage, std::int32_t partner) {
  std::vector<Partner> of{{partner, AcesoPrimitive::kIncOperators}};
  if (!is_neighbour(stage, partner)) of.push_back({stage + (partner > stage ? 1 : -1), AcesoPrimitive::kDecOperators});
  return of;
}

}  // namespace

std::span<const PrimitiveRow> primitive_table() {
  return kTable;
}

const char* name_of(AcesoPrimitive primitive) {
  return kTable[static_cast<std::size_t>(primitive)].name;
}

std::vector<Move> eligible_moves(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage,
                                 Resource resource) {
  std::vector<Move> moves;
  for (const PrimitiveRow& row : primitive_table()) {
    if (row.trends[static_cast<std::size_t>(resource)] != Trend::kDown) continue;
    // Where everything fits, memory is relieved to recompute less.
    if (load.fits && row.primitive == AcesoPrimitive::kIncRecompute) continue;
    apply(evaluator, from, load, stage, resource, row.primitive, moves);
  }
  return moves;
}

std::vector<Move> spare_moves(const Evaluator& evaluator, const Candidate& from, std::int32_t stage) {
  std::vector<Move> moves;
  take_operators(evaluator.space(), from, stage, moves);
  change_recompute(evaluator.space(), from, stage, AcesoPrimitive::kDecRecompute, moves);
  return moves;
}

void attach_recompute(Evaluator& evaluator, const Candidate& from, Move& move) {
  if (move.primitive == AcesoPrimitive::kIncRecompute || move.primitive == AcesoPrimitive::kDecRecompute) return;
  for (std::size_t s = 0; s < from.stages.size(); ++s) {
    const std::int32_t before = recomputed_operators(evaluator, from, s);
    const std::int32_t after = recomputed_operators(evaluator, move.result, s);
    if (after == before) continue;
    const AcesoPrimitive primitive = after > before ? AcesoPrimitive::kIncRecompute : AcesoPrimitive::kDecRecompute;
    move.partners.push_back({static_cast<std::int32_t>(s), primitive, std::abs(after - before)});
  }
}

std::string move_text(const Move& move) {
  const bool whole_plan =
      move.primitive == AcesoPrimitive::kIncMicrobatch || move.primitive == AcesoPrimitive::kDecMicrobatch;
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

bool shift_operators(const PlanSpace& space, std::int32_t stage, std::int32_t partner, std::int32_t amount,
                     Candidate& candidate) {
  const bool forwards = partner > stage;  // operators go to later stages: cuts move to earlier operators
  const std::int32_t first = forwards ? stage : partner;
  const std::int32_t last = forwards ? partner : stage;
  for (std::int32_t s = first; s < last; ++s) {
    const std::ptrdiff_t index = cut_index(space, candidate.stages[s].end) + (forwards ? -amount : amount);
    if (index < 0 || index >= static_cast<std::ptrdiff_t>(space.cuts.size())) return false;
    candidate.stages[s].end = space.cuts[index];
  }
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    if (candidate.begin_of(s) >= candidate.stages[s].end) return false;
    fit_to_range(candidate.begin_of(s), candidate.stages[s]);
  }
  return true;
}

bool shift_cut(const PlanSpace& space, std::size_t stage, std::int32_t by, Candidate& candidate) {
  const auto s = static_cast<std::int32_t>(stage);
  return by > 0 ? shift_operators(space, s, s + 1, by, candidate) : shift_operators(space, s + 1, s, -by, candidate);
}

void give_operators(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                    std::int32_t stage, std::vector<Move>& moves) {
  if (!space.knobs.uneven_stages) return;
  for (const std::int32_t partner : receivers(partners, stage)) {
    for (const std::int32_t amount : kAmounts) {
      Candidate result = from;
      if (!shift_operators(space, stage, partner, amount, result)) break;
      moves.push_back({AcesoPrimitive::kDecOperators, stage, amount, relay(stage, partner), false, std::move(result)});
    }
  }
}

void take_operators(const PlanSpace& space, const Candidate& from, std::int32_t stage, std::vector<Move>& moves) {
  if (!space.knobs.uneven_stages) return;
  for (const std::int32_t giver : {stage - 1, stage + 1}) {
    if (giver < 0 || giver >= static_cast<std::int32_t>(from.stages.size())) continue;
    for (const std::int32_t amount : kTaken) {
      Candidate result = from;
      if (!shift_operators(space, giver, stage, amount, result)) break;
      const std::vector<Partner> partners{{giver, AcesoPrimitive::kDecOperators}};
      moves.push_back({AcesoPrimitive::kIncOperators, stage, amount, partners, false, std::move(result)});
    }
  }
}

}  // namespace trimtab::tuner
