#include "strategies/aceso/operator_moves.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

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
  std::vector<Partner> of{{partner, Primitive::kIncOperators}};
  if (!is_neighbour(stage, partner)) of.push_back({stage + (partner > stage ? 1 : -1), Primitive::kDecOperators});
  return of;
}

}  // namespace

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

void give_operators(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                    std::int32_t stage, std::vector<Move>& moves) {
  if (!space.knobs.uneven_stages) return;
  for (const std::int32_t partner : receivers(partners, stage)) {
    for (const std::int32_t amount : kAmounts) {
      Candidate result = from;
      if (!shift_operators(space, stage, partner, amount, result)) break;
      moves.push_back({Primitive::kDecOperators, stage, amount, relay(stage, partner), false, std::move(result)});
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
      const std::vector<Partner> partners{{giver, Primitive::kDecOperators}};
      moves.push_back({Primitive::kIncOperators, stage, amount, partners, false, std::move(result)});
    }
  }
}

}  // namespace trimtab::tuner
