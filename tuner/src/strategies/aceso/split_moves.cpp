#include "strategies/aceso/split_moves.hpp"

#include <algorithm>

#include "plan/candidate.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kPartners = 16;  // stages asked for devices, those with most to spare first
constexpr std::size_t kFirstPartners = 4;
constexpr std::int32_t kSmallAmounts = 8;  // every amount up to here, then doubling

bool listed(const PlanSpace& space, std::int32_t count) {
  const std::vector<std::int32_t>& counts = space.device_counts;
  return counts.empty() || std::find(counts.begin(), counts.end(), count) != counts.end();
}

// The next count of devices that a stage may have, or 0.
std::int32_t next_count(const PlanSpace& space, std::int32_t count, bool larger) {
  std::int32_t best = 0;
  for (const std::int32_t other : space.device_counts) {
    const bool beyond = larger ? other > count : other < count;
    const bool nearer = best == 0 || (larger ? other < best : other > best);
    if (beyond && nearer) best = other;
  }
  return best;
}

void with_one_partner(const PlanSpace& space, const Candidate& from, std::int32_t partner, std::int32_t stage,
                      bool take, std::vector<DeviceChange>& changes) {
  const std::int32_t own = from.stages[stage].devices;
  const std::int32_t other = from.stages[partner].devices;
  const std::int32_t most = (take ? other : own) - 1;
  for (std::int32_t amount = 1; amount <= most; amount += amount < kSmallAmounts ? 1 : amount) {
    const std::int32_t signed_amount = take ? amount : -amount;
    if (!listed(space, own + signed_amount) || !listed(space, other - signed_amount)) continue;
    changes.push_back({{stage, own + signed_amount}, {partner, other - signed_amount}});
  }
}

// Partners from the `first` on, each one step, until as many devices have changed hands as the stage's own step needs.
void with_several_partners(const PlanSpace& space, const Candidate& from, const std::vector<std::int32_t>& partners,
                           std::size_t first, std::int32_t stage, bool take, std::vector<DeviceChange>& changes) {
  const std::int32_t own = from.stages[stage].devices;
  const std::int32_t target = next_count(space, own, take);
  if (target == 0) return;
  std::int32_t rest = take ? target - own : own - target;
  DeviceChange change{{stage, target}};
  for (std::size_t i = first; i < partners.size() && rest > 0; ++i) {
    const std::int32_t has = from.stages[partners[i]].devices;
    const std::int32_t becomes = next_count(space, has, !take);
    const std::int32_t amount = take ? has - becomes : becomes - has;
    if (becomes == 0 || amount > rest) continue;
    change.emplace_back(partners[i], becomes);
    rest -= amount;
  }
  if (rest == 0 && change.size() > 2) changes.push_back(std::move(change));
}

bool is_tensor(AcesoPrimitive primitive) {
  return primitive == AcesoPrimitive::kIncTensorParallel || primitive == AcesoPrimitive::kDecTensorParallel;
}

bool is_inc(AcesoPrimitive primitive) {
  return primitive == AcesoPrimitive::kIncTensorParallel || primitive == AcesoPrimitive::kIncDataParallel ||
         primitive == AcesoPrimitive::kIncMicrobatch || primitive == AcesoPrimitive::kIncSharding;
}

bool allowed_devices(const PlanSpace& space, const Candidate& candidate) {
  const std::int32_t first = candidate.stages.front().devices;
  std::int32_t device = 0;
  for (const CandidateStage& stage : candidate.stages) {
    if (!space.allows_devices(device, stage.devices)) return false;
    if (!space.knobs.uneven_stages && stage.devices != first) return false;
    device += stage.devices;
  }
  return true;
}

// Keeps the replicas and changes the ranks of each: false where a replica would not have a whole number of ranks.
bool scale_tensor_parallel(CandidateStage& stage, std::int32_t devices) {
  const std::int32_t before = stage.devices;
  const auto scale = [&](Split& split) {
    const std::int32_t ranks = split.tp * devices;
    if (ranks % before != 0 || ranks < before) return false;
    split.tp = ranks / before;
    return split.tp * split.dp == devices;
  };
  stage.devices = devices;
  if (!scale(stage.split)) return false;
  return std::all_of(stage.segments.begin(), stage.segments.end(),
                     [&](CandidateSegment& segment) { return scale(segment.split); });
}

void put_uniform(const Split& split, std::int32_t devices, CandidateStage& stage) {
  stage.devices = devices;
  stage.split = split;
  stage.segments.clear();
}

bool better(const StagePrice& a, const StagePrice& b) {
  if (a.priced != b.priced) return a.priced;
  if (a.excess_bytes != b.excess_bytes) return a.excess_bytes < b.excess_bytes;
  return a.step_ms < b.step_ms;
}

// What happened to a partner, in the table's words.
AcesoPrimitive partner_primitive(const CandidateStage& before, const CandidateStage& after) {
  const bool more = after.devices > before.devices;
  if (after.split.dp == before.split.dp && after.split.tp != before.split.tp) {
    return more ? AcesoPrimitive::kIncTensorParallel : AcesoPrimitive::kDecTensorParallel;
  }
  return more ? AcesoPrimitive::kIncDataParallel : AcesoPrimitive::kDecDataParallel;
}

class SplitChanges {
 public:
  SplitChanges(Evaluator& evaluator, const Candidate& from, std::int32_t stage, AcesoPrimitive primitive)
      : evaluator_(evaluator), from_(from), stage_(stage), primitive_(primitive) {}

  void with_partners(const std::vector<std::int32_t>& partners, std::vector<Move>& moves) {
    for (const DeviceChange& change : device_changes(evaluator_.space(), from_, partners, stage_, is_inc(primitive_))) {
      Candidate result = from_;
      if (!apply_own(change.front().second, result)) continue;
      if (!apply_devices(evaluator_, {change.begin() + 1, change.end()}, result)) continue;
      Move move;
      move.amount = std::abs(change.front().second - from_.stages[stage_].devices);
      for (std::size_t i = 1; i < change.size(); ++i) {
        const std::int32_t partner = change[i].first;
        move.partners.push_back({partner, partner_primitive(from_.stages[partner], result.stages[partner])});
      }
      put(std::move(move), std::move(result), moves);
    }
  }

  // Tensor for data parallelism or the reverse.
  void inside(std::vector<Move>& moves) {
    const CandidateStage& own = from_.stages[stage_];
    const PlanSpace& space = evaluator_.space();
    if (space.tensor_parallel.size() < 2) return;
    for (const Split& split : space.splits(evaluator_.model(), from_.microbatch, own.devices)) {
      const std::int32_t before = is_tensor(primitive_) ? own.split.tp : own.split.dp;
      const std::int32_t after = is_tensor(primitive_) ? split.tp : split.dp;
      if (after == before || (after > before) != is_inc(primitive_)) continue;
      if (split.sharded != own.split.sharded && split.dp > 1 && own.split.dp > 1) continue;
      Candidate result = from_;
      put_uniform(split, own.devices, result.stages[stage_]);
      Move move;
      move.amount = after;
      move.partners = {{stage_, counterpart()}};
      put(std::move(move), std::move(result), moves);
    }
  }

 private:
  void put(Move move, Candidate result, std::vector<Move>& moves) const {
    move.primitive = primitive_;
    move.stage = stage_;
    move.result = std::move(result);
    moves.push_back(std::move(move));
  }

  bool apply_own(std::int32_t devices, Candidate& result) {
    CandidateStage& own = result.stages[stage_];
    if (is_tensor(primitive_)) {
      if (!scale_tensor_parallel(own, devices)) return false;
    } else {
      set_devices(own, devices);
    }
    return allowed_splits(evaluator_.space(), evaluator_.model(), result.microbatch, own);
  }

  [[nodiscard]] AcesoPrimitive counterpart() const {
    if (primitive_ == AcesoPrimitive::kIncDataParallel) return AcesoPrimitive::kDecTensorParallel;
    if (primitive_ == AcesoPrimitive::kDecDataParallel) return AcesoPrimitive::kIncTensorParallel;
    return primitive_ == AcesoPrimitive::kIncTensorParallel ? AcesoPrimitive::kDecDataParallel
                                                            : AcesoPrimitive::kIncDataParallel;
  }

  Evaluator& evaluator_;
  const Candidate& from_;
  std::int32_t stage_;
  AcesoPrimitive primitive_;
};

}  // namespace

std::vector<DeviceChange> device_changes(const PlanSpace& space, const Candidate& from,
                                         const std::vector<std::int32_t>& partners, std::int32_t stage, bool take) {
  std::vector<DeviceChange> changes;
  for (std::size_t i = 0; i < std::min(kPartners, partners.size()); ++i) {
    with_one_partner(space, from, partners[i], stage, take, changes);
  }
  if (space.device_counts.empty()) return changes;
  for (std::size_t first = 0; first + 1 < partners.size() && first < kFirstPartners; ++first) {
    with_several_partners(space, from, partners, first, stage, take, changes);
  }
  return changes;
}

bool allowed(const PlanSpace& space, const Model& model, const Candidate& candidate) {
  return allowed_devices(space, candidate) &&
         std::all_of(candidate.stages.begin(), candidate.stages.end(), [&](const CandidateStage& stage) {
           return stage.devices >= 1 && allowed_splits(space, model, candidate.microbatch, stage);
         });
}

std::vector<CandidateStage> resized(const PlanSpace& space, const Model& model, std::int32_t microbatch,
                                    const CandidateStage& stage, std::int32_t devices) {
  std::vector<CandidateStage> options;
  const auto put = [&](CandidateStage option) {
    if (!allowed_splits(space, model, microbatch, option)) return;
    if (std::find(options.begin(), options.end(), option) == options.end()) options.push_back(std::move(option));
  };
  CandidateStage option = stage;
  set_devices(option, devices);
  put(option);
  if (space.tensor_parallel.size() < 2 && space.sharded.size() < 2) return options;
  option = stage;
  if (scale_tensor_parallel(option, devices)) put(option);
  for (const Split& split : space.splits(model, microbatch, devices)) {
    option = stage;
    put_uniform(split, devices, option);
    put(option);
  }
  return options;
}

void choose_best(Evaluator& evaluator, std::int32_t stage, const std::vector<CandidateStage>& options,
                 Candidate& candidate) {
  CandidateStage& place = candidate.stages[stage];
  place = options.front();
  if (options.size() == 1) return;
  const auto at = static_cast<std::size_t>(stage);
  std::size_t best = 0;
  StagePrice best_price = evaluator.stage(candidate, at);
  for (std::size_t i = 1; i < options.size(); ++i) {
    place = options[i];
    const StagePrice& price = evaluator.stage(candidate, at);
    if (!better(price, best_price)) continue;
    best = i;
    best_price = price;
  }
  place = options[best];
}

bool apply_devices(Evaluator& evaluator, const DeviceChange& change, Candidate& candidate) {
  std::vector<std::vector<CandidateStage>> options;
  for (const auto& [stage, devices] : change) {
    options.push_back(
        resized(evaluator.space(), evaluator.model(), candidate.microbatch, candidate.stages[stage], devices));
    if (options.back().empty()) return false;
    candidate.stages[stage] = options.back().front();
  }
  if (!allowed_devices(evaluator.space(), candidate)) return false;
  for (std::size_t i = 0; i < change.size(); ++i) choose_best(evaluator, change[i].first, options[i], candidate);
  return true;
}

bool set_microbatch(Evaluator& evaluator, std::int32_t microbatch, Candidate& candidate) {
  candidate.microbatch = microbatch;
  std::vector<std::vector<CandidateStage>> options;
  for (CandidateStage& stage : candidate.stages) {
    options.push_back(resized(evaluator.space(), evaluator.model(), microbatch, stage, stage.devices));
    if (options.back().empty()) return false;
    stage = options.back().front();
  }
  for (std::size_t s = 0; s < options.size(); ++s) {
    choose_best(evaluator, static_cast<std::int32_t>(s), options[s], candidate);
  }
  return true;
}

void change_split(Evaluator& evaluator, const Candidate& from, const std::vector<std::int32_t>& partners,
                  std::int32_t stage, AcesoPrimitive primitive, std::vector<Move>& moves) {
  if (is_tensor(primitive) && evaluator.space().tensor_parallel.size() < 2) return;
  SplitChanges changes(evaluator, from, stage, primitive);
  changes.with_partners(partners, moves);
  changes.inside(moves);
}

void change_microbatch(Evaluator& evaluator, const Candidate& from, AcesoPrimitive primitive,
                       std::vector<Move>& moves) {
  for (const std::int32_t value : evaluator.space().microbatches) {
    if (value == from.microbatch || (value > from.microbatch) != is_inc(primitive)) continue;
    Candidate kept = from;
    kept.microbatch = value;
    const bool keeps = allowed(evaluator.space(), evaluator.model(), kept);
    Candidate chosen = from;
    const bool chooses = set_microbatch(evaluator, value, chosen) && !(keeps && chosen == kept);
    if (keeps) moves.push_back({primitive, 0, value, {}, false, std::move(kept)});
    if (chooses) moves.push_back({primitive, 0, value, {}, false, std::move(chosen)});
  }
}

void change_sharding(Evaluator& evaluator, const Candidate& from, std::int32_t stage, AcesoPrimitive primitive,
                     std::vector<Move>& moves) {
  const PlanSpace& space = evaluator.space();
  const CandidateStage& own = from.stages[stage];
  if (space.sharded.size() < 2 || own.split.dp < 2) return;
  for (const ShardedLevel level : space.sharded) {
    if (level == own.split.sharded || (level > own.split.sharded) != is_inc(primitive)) continue;
    Candidate result = from;
    result.stages[stage].split.sharded = level;
    for (CandidateSegment& segment : result.stages[stage].segments) {
      if (segment.split.dp > 1) segment.split.sharded = level;
    }
    if (!allowed_splits(space, evaluator.model(), from.microbatch, result.stages[stage])) continue;
    moves.push_back({primitive, stage, static_cast<std::int32_t>(level), {}, false, std::move(result)});
  }
}

}  // namespace trimtab::tuner
