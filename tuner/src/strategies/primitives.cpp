#include "primitives.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

constexpr Trend kDown = Trend::kDown;
constexpr Trend kSame = Trend::kSame;
constexpr Trend kUp = Trend::kUp;

// How many cut positions to move at once: all small numbers, then fewer and fewer.
constexpr std::array kAmounts{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

std::ptrdiff_t cut_index(const PlanSpace& space, std::int32_t cut) {
  return std::lower_bound(space.cuts.begin(), space.cuts.end(), cut) - space.cuts.begin();
}

// Partner stages, the least busy first.
std::vector<std::int32_t> partners(const Load& load, std::int32_t stage) {
  std::vector<std::int32_t> order(load.ranking.rbegin(), load.ranking.rend());
  order.erase(std::find(order.begin(), order.end(), stage));
  return order;
}

class Applications {
 public:
  Applications(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage)
      : evaluator_(evaluator), space_(evaluator.space()), from_(from), load_(load), stage_(stage) {}

  std::vector<Move> of(Primitive primitive) {
    switch (primitive) {
      case Primitive::kDecOperators:
        move_operators();
        break;
      case Primitive::kIncMicrobatch:
        change_microbatch(primitive);
        break;
      case Primitive::kDecMicrobatch:
        change_microbatch(primitive);
        break;
      case Primitive::kIncDataParallel:
        move_devices(primitive);
        break;
      case Primitive::kDecDataParallel:
        move_devices(primitive);
        break;
      case Primitive::kIncRecompute:
        change_recompute(1);
        break;
      case Primitive::kDecRecompute:
        change_recompute(-1);
        break;
      // A stage gets operators only as the partner of one that gives them.
      case Primitive::kIncOperators:
        break;
    }
    return std::move(moves_);
  }

 private:
  void put(Primitive primitive, std::int32_t partner, std::int32_t amount, Candidate result) {
    moves_.push_back({primitive, stage_, partner, amount, std::move(result)});
  }

  // To the idlest stage on either side, through the stages between (relay), and to both neighbours.
  void move_operators() {
    if (!space_.knobs.uneven_stages) return;
    std::vector<std::int32_t> chosen;
    for (const std::int32_t partner : partners(load_, stage_)) {
      const bool neighbour = partner == stage_ - 1 || partner == stage_ + 1;
      const bool first_on_side = std::none_of(
          chosen.begin(), chosen.end(), [&](std::int32_t other) { return (other < stage_) == (partner < stage_); });
      if (neighbour || first_on_side) chosen.push_back(partner);
    }
    for (const std::int32_t partner : chosen) {
      for (const std::int32_t amount : kAmounts) {
        Candidate result = from_;
        if (!shift_operators(space_, stage_, partner, amount, result)) break;
        put(Primitive::kDecOperators, partner, amount, std::move(result));
      }
    }
  }

  void change_microbatch(Primitive primitive) {
    const std::vector<std::int32_t>& values = space_.microbatches;
    for (const std::int32_t value : values) {
      const bool larger = value > from_.microbatch;
      if (value == from_.microbatch || larger != (primitive == Primitive::kIncMicrobatch)) continue;
      Candidate result = from_;
      result.microbatch = value;
      if (allowed(space_, evaluator_.tables().model, result)) put(primitive, -1, value, std::move(result));
    }
  }

  void move_devices(Primitive primitive) {
    const bool take = primitive == Primitive::kIncDataParallel;
    for (const std::int32_t partner : partners(load_, stage_)) {
      const std::int32_t giver = take ? partner : stage_;
      const std::int32_t taker = take ? stage_ : partner;
      for (std::int32_t amount = 1; amount < from_.stages[giver].devices; ++amount) {
        Candidate result = from_;
        result.stages[giver].devices -= amount;
        result.stages[taker].devices += amount;
        if (allowed(space_, evaluator_.tables().model, result)) put(primitive, partner, amount, std::move(result));
      }
    }
  }

  void change_recompute(std::int32_t sign) {
    if (!space_.knobs.recompute) return;
    const std::int32_t operators = from_.stages[stage_].end - from_.begin_of(static_cast<std::size_t>(stage_));
    for (const std::int32_t amount : {1, 2, 4}) {
      Candidate result = from_;
      std::int32_t& further = result.stages[stage_].further;
      further += sign * amount;
      if (further >= 0 && further <= operators) {
        put(sign > 0 ? Primitive::kIncRecompute : Primitive::kDecRecompute, -1, amount, std::move(result));
      }
    }
  }

  Evaluator& evaluator_;
  const PlanSpace& space_;
  const Candidate& from_;
  const Load& load_;
  std::int32_t stage_;
  std::vector<Move> moves_;
};

}  // namespace

namespace {

constexpr std::array<PrimitiveRow, 8> kTable{{
    {Primitive::kIncOperators, "inc-op#", {kUp, kSame, kUp}},
    {Primitive::kDecOperators, "dec-op#", {kDown, kSame, kDown}},
    {Primitive::kIncMicrobatch, "inc-mbs", {kDown, kSame, kUp}},
    {Primitive::kDecMicrobatch, "dec-mbs", {kUp, kSame, kDown}},
    {Primitive::kIncDataParallel, "inc-dp", {kDown, kUp, kDown}},
    {Primitive::kDecDataParallel, "dec-dp", {kUp, kDown, kUp}},
    {Primitive::kIncRecompute, "inc-rc", {kUp, kSame, kDown}},
    {Primitive::kDecRecompute, "dec-rc", {kDown, kSame, kUp}},
}};

}  // namespace

std::span<const PrimitiveRow> primitive_table() {
  return kTable;
}

bool allowed(const PlanSpace& space, const Model& model, const Candidate& candidate) {
  const std::int32_t first = candidate.stages.front().devices;
  return std::all_of(candidate.stages.begin(), candidate.stages.end(), [&](const CandidateStage& stage) {
    if (stage.devices < 1 || (stage.devices > 1 && !space.knobs.data_parallel)) return false;
    if (!space.knobs.uneven_stages && stage.devices != first) return false;
    return divides_well(model, candidate.microbatch, stage.devices);
  });
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
  }
  return true;
}

std::vector<Move> eligible_moves(Evaluator& evaluator, const Candidate& from, const Load& load, std::int32_t stage,
                                 Resource resource) {
  std::vector<Move> moves;
  for (const PrimitiveRow& row : primitive_table()) {
    if (row.trends[static_cast<std::size_t>(resource)] != Trend::kDown) continue;
    std::vector<Move> of = Applications(evaluator, from, load, stage).of(row.primitive);
    std::move(of.begin(), of.end(), std::back_inserter(moves));
  }
  return moves;
}

std::string move_text(const Move& move) {
  const char* const name = primitive_table()[static_cast<std::size_t>(move.primitive)].name;
  const bool whole_plan = move.primitive == Primitive::kIncMicrobatch || move.primitive == Primitive::kDecMicrobatch;
  if (whole_plan) return std::string(name) + " to " + std::to_string(move.amount);
  std::string text = std::string(name) + " stage " + std::to_string(move.stage);
  if (move.partner >= 0) {
    const bool takes = move.primitive == Primitive::kIncDataParallel;
    text += (takes ? " <- stage " : " -> stage ") + std::to_string(move.partner);
  }
  return text + " (" + std::to_string(move.amount) + ")";
}

}  // namespace trimtab::tuner
