#include "plan/candidate.hpp"

#include <algorithm>

#include "plan/plan_rules.hpp"
#include "plan/switch_plan.hpp"

namespace trimtab::tuner {
namespace {

class Hash {
 public:
  void mix(std::int64_t value) {
    hash_ ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15U;
    hash_ *= 0xbf58476d1ce4e5b9U;
    hash_ ^= hash_ >> 29;
  }
  void mix(const Split& split) {
    mix(split.dp);
    mix(split.tp);
    mix(static_cast<std::int64_t>(split.sharded));
    mix(split.sharded_degree);
  }
  void mix(const std::vector<Range>& ranges) {
    mix(static_cast<std::int64_t>(ranges.size()));
    for (const Range& range : ranges) {
      mix(range.begin);
      mix(range.end);
    }
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

void mix_stage(const CandidateStage& stage, Hash& hash) {
  hash.mix(stage.end);
  hash.mix(stage.devices);
  hash.mix(stage.further);
  hash.mix(stage.split);
  hash.mix(static_cast<std::int64_t>(stage.segments.size()));
  for (const CandidateSegment& segment : stage.segments) {
    hash.mix(segment.end);
    hash.mix(segment.split);
  }
  hash.mix(stage.alternate);
  hash.mix(stage.recompute ? 1 : 0);
  if (stage.recompute) hash.mix(*stage.recompute);
  if (!stage.switches) return;
  for (const h3t::SwitchField& field : h3t::kSwitchFields) hash.mix((*stage.switches).*field.of_plan);
}

std::vector<Range> inside(const std::vector<Range>& ranges, const Range& bounds) {
  std::vector<Range> kept;
  for (const Range& range : ranges) {
    const Range clipped{std::max(range.begin, bounds.begin), std::min(range.end, bounds.end)};
    if (clipped.begin < clipped.end) kept.push_back(clipped);
  }
  return kept;
}

Split split_of(const Segment& segment) {
  const std::int32_t degree = segment.sharded_degree == segment.dp ? 0 : segment.sharded_degree;
  const bool sharded = segment.sharded != ShardedLevel::kNone;
  return {segment.dp, segment.tp, segment.sharded, sharded ? degree : 0};
}

void append(std::vector<Range>& to, const std::vector<Range>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

bool is_inside(const Range& range, const std::vector<Range>& ranges) {
  return std::ranges::any_of(ranges,
                             [&range](const Range& one) { return one.begin <= range.begin && range.end <= one.end; });
}

// REQUIRES: normalized lists.
bool allows_switches(const Switches& switches, const PlanSpace& space) {
  const h3t::AllowedSwitches& allowed = space.switches;
  const auto partitioned = [&](const Range& lazy) { return is_inside(lazy, switches.partition_parameters); };
  if (allowed.lazy_needs_partition && !std::ranges::all_of(switches.lazy_prefetch, partitioned)) return false;
  return std::ranges::all_of(h3t::kSwitchFields, [&](const h3t::SwitchField& field) {
    return allowed.*field.of_layer || (switches.*field.of_plan).empty();
  });
}

// Segments that say the same are one.
std::optional<CandidateStage> stage_of(const Stage& stage, const PlanSpace& space) {
  CandidateStage of;
  of.devices = static_cast<std::int32_t>(stage.devices.size()) / space.sequence.cp;
  of.end = stage.operators().end;
  std::vector<Range> recompute;
  for (const Segment& segment : stage.segments) {
    const Split split = split_of(segment);
    const bool plain = segment.cp == space.sequence.cp && segment.tp_consecutive;
    const bool known = std::ranges::find(space.tensor_parallel, split.tp) != space.tensor_parallel.end() &&
                       std::ranges::find(space.sharded, split.sharded) != space.sharded.end();
    if (!plain || !known || split.dp * split.tp != of.devices) return std::nullopt;
    append_split(of, segment.operators.end, split);
    append(of.alternate, segment.alternate_dimension);
    append(recompute, segment.recompute);
  }
  of.switches = switches_of(stage);
  if (of.switches && (!space.memory_switches || !allows_switches(*of.switches, space))) return std::nullopt;
  if (of.switches) of.recompute = normalized(std::move(recompute));
  of.alternate = normalized(std::move(of.alternate));
  settle_splits(of);
  if (!of.segments.empty() && !space.mixed_splits) return std::nullopt;
  if (!of.alternate.empty() && !space.alternate_dimensions) return std::nullopt;
  return of;
}

void resize(Split& split, std::int32_t devices) {
  if (devices % split.tp != 0) split.tp = 1;
  split.dp = devices / split.tp;
  if (split.dp == 1) split.sharded = ShardedLevel::kNone;
  if (split.sharded == ShardedLevel::kNone) split.sharded_degree = 0;
  if (split.sharded_degree > 0 && split.dp % split.sharded_degree != 0) split.sharded_degree = 0;
}

template <typename Is>
bool any_split(const Candidate& candidate, Is&& is) {
  return std::ranges::any_of(candidate.stages, [&](const CandidateStage& stage) {
    if (stage.segments.empty()) return is(stage.split);
    return std::ranges::any_of(stage.segments, [&](const CandidateSegment& segment) { return is(segment.split); });
  });
}

bool any_odd(const Candidate& candidate) {
  return any_split(candidate, [&](const Split& split) { return candidate.microbatch / split.dp % 2 != 0; });
}

bool any_switched(const Candidate& candidate) {
  return std::ranges::any_of(candidate.stages, [](const CandidateStage& stage) { return stage.switches.has_value(); });
}

void canonicalize(Split& split) {
  if (split.dp == 1) split.sharded = ShardedLevel::kNone;
  if (split.sharded == ShardedLevel::kNone || split.sharded_degree == split.dp) split.sharded_degree = 0;
}

void join_segments(CandidateStage& stage) {
  if (stage.segments.empty()) return;
  std::vector<CandidateSegment> joined;
  for (const CandidateSegment& segment : stage.segments) {
    if (!joined.empty() && joined.back().split == segment.split) {
      joined.back().end = segment.end;
    } else {
      joined.push_back(segment);
    }
  }
  stage.split = joined.front().split;
  stage.segments = joined.size() > 1 ? std::move(joined) : std::vector<CandidateSegment>{};
}

bool has_second_choice(const Model& model, const CandidateStage& stage, std::int32_t op) {
  if (model.operators[op].shardings.size() < 2) return false;
  if (stage.segments.empty()) return stage.split.tp > 1;
  const auto inside =
      std::ranges::find_if(stage.segments, [op](const CandidateSegment& segment) { return op < segment.end; });
  return inside != stage.segments.end() && inside->split.tp > 1;
}

void drop_idle_alternates(const Model& model, CandidateStage& stage) {
  if (stage.alternate.empty()) return;
  std::vector<Range> kept;
  for (const Range& range : stage.alternate) {
    for (std::int32_t op = range.begin; op < range.end; ++op) {
      if (has_second_choice(model, stage, op)) kept.push_back({op, op + 1});
    }
  }
  stage.alternate = normalized(std::move(kept));
}

bool is_plain(const CandidateStage& stage) {
  return stage.segments.empty() && stage.alternate.empty() && stage.split.sharded == ShardedLevel::kNone &&
         stage.split.sharded_degree == 0;
}

}  // namespace

std::uint64_t hash_of(const Candidate& candidate) {
  Hash hash;
  hash.mix(candidate.microbatch);
  if (candidate.sliced_microbatches) hash.mix(-1 - *candidate.sliced_microbatches);
  if (candidate.sub_batches) {
    hash.mix(candidate.sub_batches->count);
    hash.mix(candidate.sub_batches->cross_pass ? 2 : 3);
    hash.mix(candidate.sub_batches->recompute_after_communication ? 4 : 5);
  }
  if (candidate.seats > 0) hash.mix(-candidate.seats);
  for (const CandidateStage& stage : candidate.stages) mix_stage(stage, hash);
  return hash.value();
}

std::vector<CandidateSegment> segments_of(const CandidateStage& stage) {
  if (!stage.segments.empty()) return stage.segments;
  return {{stage.end, stage.split}};
}

bool may_sub_batch(const Candidate& candidate) {
  if (candidate.microbatch % 2 != 0 || any_switched(candidate)) return false;
  return any_split(candidate, [](const Split& split) { return split.tp > 1; }) && !any_odd(candidate);
}

std::int32_t most_sliced(const Candidate& candidate, const Model& model) {
  if (candidate.microbatch % 2 != 0 || any_switched(candidate) || any_odd(candidate)) return 0;
  return std::min(static_cast<std::int32_t>(candidate.stages.size()) - 1, model.global_batch / candidate.microbatch);
}

void set_devices(CandidateStage& stage, std::int32_t devices) {
  stage.devices = devices;
  resize(stage.split, devices);
  for (CandidateSegment& segment : stage.segments) resize(segment.split, devices);
}

void fit_to_range(std::int32_t begin, CandidateStage& stage) {
  const Range bounds{begin, stage.end};
  stage.alternate = inside(stage.alternate, bounds);
  if (stage.recompute) stage.recompute = inside(*stage.recompute, bounds);
  // A moved cut may have cut a layer, and switches hold for whole ones.
  stage.switches.reset();
  if (stage.segments.empty()) return;
  std::vector<CandidateSegment> kept;
  for (const CandidateSegment& segment : stage.segments) {
    const bool before = segment.end <= begin;
    const bool after = !kept.empty() && kept.back().end >= stage.end;
    if (!before && !after) kept.push_back(segment);
  }
  if (kept.empty()) kept.push_back(stage.segments.back());
  kept.back().end = stage.end;
  stage.split = kept.front().split;
  stage.segments = kept.size() > 1 ? std::move(kept) : std::vector<CandidateSegment>{};
}

std::optional<Candidate> candidate_of(const Plan& plan, const PlanSpace& space) {
  const std::vector<std::int32_t>& allowed = space.microbatches;
  if (std::ranges::find(allowed, plan.microbatch) == allowed.end()) return std::nullopt;
  const Schedule& schedule = plan.schedule;
  const ScheduleKind kind = space.interleaved ? ScheduleKind::kInterleaved : ScheduleKind::k1F1B;
  if (schedule.kind != kind) return std::nullopt;
  if (schedule.sliced_microbatches > 0 && !space.sliced_microbatches) return std::nullopt;
  const SubBatches sub_batches{schedule.sub_batches, schedule.cross_pass, schedule.recompute_after_communication};
  const auto& known = space.sub_batches;
  if (std::ranges::find(known, sub_batches) == known.end()) return std::nullopt;
  if (target_says(plan, kSequenceParallel, "true") != space.sequence.parallel) return std::nullopt;
  Candidate candidate;
  candidate.microbatch = plan.microbatch;
  if (space.interleaved) candidate.seats = seats_of(plan);
  std::int32_t device = 0;
  for (const Stage& stage : plan.stages) {
    if (space.interleaved && candidate.stages.size() % candidate.seats == 0) device = 0;
    const std::int32_t first = device;
    for (const std::int32_t listed : stage.devices) {
      if (listed != device++) return std::nullopt;
    }
    std::optional<CandidateStage> of = stage_of(stage, space);
    if (!of || !space.allows_devices(first / space.sequence.cp, of->devices)) return std::nullopt;
    candidate.stages.push_back(std::move(*of));
  }
  if (device != space.devices * space.sequence.cp) return std::nullopt;
  return candidate;
}

Plan plan_of(const Candidate& candidate, const Model& model, const std::vector<std::vector<Range>>& recompute,
             const SequenceShare& sequence) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = candidate.microbatch;
  if (candidate.sub_batches && may_sub_batch(candidate)) {
    plan.schedule.sub_batches = candidate.sub_batches->count;
    plan.schedule.cross_pass = candidate.sub_batches->cross_pass;
    plan.schedule.recompute_after_communication = candidate.sub_batches->recompute_after_communication;
  }
  if (plan.schedule.sub_batches == 1) {
    plan.schedule.sliced_microbatches =
        std::min(candidate.sliced_microbatches.value_or(0), most_sliced(candidate, model));
  }
  if (candidate.seats > 0) plan.schedule.kind = ScheduleKind::kInterleaved;
  if (sequence.parallel) plan.target_knobs[kSequenceParallel] = "true";
  std::int32_t device = 0;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const CandidateStage& from = candidate.stages[s];
    Stage stage;
    if (candidate.seats > 0 && s % static_cast<std::size_t>(candidate.seats) == 0) device = 0;
    for (std::int32_t i = 0; i < from.devices * sequence.cp; ++i) stage.devices.push_back(device++);
    std::int32_t begin = candidate.begin_of(s);
    for (const CandidateSegment& part : segments_of(from)) {
      Segment segment;
      segment.operators = {begin, part.end};
      segment.dp = part.split.dp;
      segment.tp = part.split.tp;
      segment.cp = sequence.cp;
      segment.sharded = part.split.sharded;
      segment.sharded_degree = part.split.sharded_degree;
      segment.recompute = inside(recompute[s], segment.operators);
      segment.alternate_dimension = inside(from.alternate, segment.operators);
      if (from.switches) segment.switches = switches_inside(*from.switches, segment.operators);
      stage.segments.push_back(std::move(segment));
      begin = part.end;
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

void canonicalize(const Model& model, Candidate& candidate) {
  for (CandidateStage& stage : candidate.stages) {
    if (is_plain(stage)) continue;
    canonicalize(stage.split);
    for (CandidateSegment& segment : stage.segments) canonicalize(segment.split);
    join_segments(stage);
    drop_idle_alternates(model, stage);
  }
}

std::uint64_t semantic_hash_of(const Model& model, const Candidate& candidate) {
  if (std::ranges::all_of(candidate.stages, is_plain)) return hash_of(candidate);
  Candidate canonical = candidate;
  canonicalize(model, canonical);
  return hash_of(canonical);
}

void append_split(CandidateStage& stage, std::int32_t end, const Split& split) {
  if (stage.segments.empty() || !(stage.segments.back().split == split)) stage.segments.push_back({end, split});
  stage.segments.back().end = end;
}

void settle_splits(CandidateStage& stage) {
  stage.split = stage.segments.front().split;
  if (stage.segments.size() == 1) stage.segments.clear();
}

bool allowed_splits(const PlanSpace& space, const Model& model, std::int32_t microbatch, const CandidateStage& stage) {
  if (stage.segments.empty()) return space.allows(model, microbatch, stage.devices, stage.split);
  return std::ranges::all_of(stage.segments, [&](const CandidateSegment& segment) {
    return space.allows(model, microbatch, stage.devices, segment.split);
  });
}

}  // namespace trimtab::tuner
