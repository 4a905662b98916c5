// Plans that a target can run, in its own terms: equal groups of devices, whole layers in stages, and for each layer,
// or for the job, a split and whether it is recomputed. First every count of stages, microbatch, split and recompute
// with layers cut evenly; then the best few of different shape are polished by moving layers between stages and
// changing the choices of single layers, or of all layers from one on, until nothing is better.
//
// What other strategies find is not restricted so: they choose stage by stage, and a target's knobs hold for all.

#include <algorithm>
#include <functional>
#include <utility>

#include "plan/candidate.hpp"
#include "schema/target.hpp"
#include "search/strategy.hpp"
#include "solvers/step_graph.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kPolished = 6;

struct LayerChoice {
  Split split;
  bool recompute = false;
  bool operator==(const LayerChoice&) const = default;
};

// A plan in a target's terms.
struct Draft {
  std::int32_t microbatch = 1;
  std::vector<std::int32_t> layers;  // of each stage
  std::int32_t seats = 1;            // equal groups of devices; fewer than stages in the interleaved schedule
  std::vector<LayerChoice> choices;  // of each layer
  Split ends;                        // of what stands before and behind the layers
  bool mlp_alone = false;            // the mlp of every layer is recomputed, and nothing else
  std::int32_t every = 0;            // each so manieth layer of a stage is recomputed; 0 = the choices are not so made
};

// Takes a draft; false where no more are wanted. Drafts are offered one by one: of a long model all of them together
// are too many to keep.
using Offer = std::function<bool(Draft)>;

struct ScoredDraft {
  Draft draft;
  Score score;
};

std::vector<std::int32_t> even_layers(std::int32_t layers, std::int32_t stages) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stages), layers / stages);
  for (std::int32_t s = 0; s < layers % stages; ++s) ++counts[s];
  return counts;
}

class TargetSearch {
 public:
  TargetSearch(SearchRun& run, TargetLimits limits, ModelLayers parts)
      : run_(run), space_(run.space()), limits_(std::move(limits)), parts_(std::move(parts)) {
    if (!run.options().live || !run.options().start) return;
    const Segment& now = run.options().start->stages.front().segments.front();
    held_degree_ = now.sharded_degree == now.dp ? 0 : now.sharded_degree;
  }

  StrategyEnd search() {
    const std::int32_t most = space_.interleaved ? space_.devices : space_.stages_max;
    for (std::int32_t seats = std::max(space_.stages_min, space_.interleaved ? 2 : 1); seats <= most; ++seats) {
      if (space_.devices % seats != 0 || seats > layer_count()) continue;
      for (const std::int32_t microbatch : space_.microbatches) {
        if (fills(seats, microbatch)) try_rounds(seats, microbatch);
      }
    }
    std::stable_sort(shapes_.begin(), shapes_.end(),
                     [](const ScoredDraft& a, const ScoredDraft& b) { return a.score.better_than(b.score); });
    if (shapes_.size() > kPolished) shapes_.resize(kPolished);
    for (ScoredDraft& shape : shapes_) polish(std::move(shape));
    return {"converged"};
  }

 private:
  [[nodiscard]] std::int32_t layer_count() const { return static_cast<std::int32_t>(parts_.layers.size()); }

  [[nodiscard]] bool honours(const Split& split, std::int32_t stages) const {
    const bool alone = split.dp > 1 && split.sharded == ShardedLevel::kNone;
    if (limits_.replicas_alone && alone && stages > 1) return false;
    if (split.sharded != ShardedLevel::kNone && split.sharded_degree != held_degree_.value_or(split.sharded_degree))
      return false;
    const bool deep = split.sharded == ShardedLevel::kGradients || split.sharded == ShardedLevel::kParameters;
    return limits_.levels_with_pipeline || stages == 1 || !deep;
  }

  // Which parts of sequences and which shards it can be told depends on the model, and no limit says so.
  [[nodiscard]] bool says(const Draft& draft) const {
    if (space_.sequence == SequenceShare{} && !space_.interleaved && draft.ends.sharded_degree == 0) return true;
    const Plan plan = run_.evaluator().plan(candidate_of(draft));
    const auto complaints = unhonoured(plan, run_.model(), run_.options().target);
    return complaints.ok() && complaints->empty();
  }

  [[nodiscard]] bool fills(std::int32_t stages, std::int32_t microbatch) const {
    return !limits_.full_pipeline || stages == 1 || run_.model().global_batch / microbatch >= stages;
  }

  void try_rounds(std::int32_t seats, std::int32_t microbatch) {
    if (!space_.interleaved) return try_shapes(seats, seats, microbatch);
    const std::int64_t microbatches = run_.model().global_batch / microbatch;
    if (microbatches % seats != 0) return;
    for (std::int32_t stages = 2 * seats; stages <= layer_count() && !run_.stopped(); stages += seats) {
      if (stages * microbatches <= kMostGraphForwards) try_shapes(seats, stages, microbatch);
    }
  }

  // Every split of the job, with every way to recompute the same in all stages; the best of them is kept.
  void try_shapes(std::int32_t seats, std::int32_t stages, std::int32_t microbatch) {
    for (const Split& split : space_.splits(run_.model(), microbatch, space_.devices / seats)) {
      if (!honours(split, stages)) continue;
      Draft draft;
      draft.microbatch = microbatch;
      draft.seats = seats;
      draft.layers = even_layers(layer_count(), stages);
      draft.choices.assign(static_cast<std::size_t>(layer_count()), {split, false});
      draft.ends = split;
      if (!says(draft)) continue;
      ScoredDraft best{draft, price(draft)};
      offer_recomputed(draft, [&](Draft other) {
        take_better(std::move(other), best);
        return !run_.stopped();
      });
      if (run_.stopped()) return;
      if (best.score.priced) shapes_.push_back(std::move(best));
    }
  }

  // The same plan with more recomputed: more and more first layers of each stage up to all, and the mlps alone.
  bool offer_recomputed(const Draft& draft, const Offer& offer) const {
    if (!space_.knobs.recompute || limits_.recompute == Reach::kNone) return true;
    const ShardedLevel level = draft.ends.sharded;
    const bool deep = level == ShardedLevel::kGradients || level == ShardedLevel::kParameters;
    if (limits_.recompute_sharded && !deep) return true;
    const std::int32_t most = *std::max_element(draft.layers.begin(), draft.layers.end());
    const bool partly = limits_.recompute == Reach::kLayer || limits_.recompute_first;
    for (std::int32_t first = 1; partly && first <= most; ++first) {
      Draft other = draft;
      recompute_first(first, other);
      if (!offer(std::move(other))) return false;
    }
    for (std::int32_t every = 1; !partly && every <= (limits_.recompute_nth ? most : 1); ++every) {
      Draft other = draft;
      recompute_every(every, other);
      if (!offer(std::move(other))) return false;
    }
    if (!limits_.recompute_mlp) return true;
    Draft other = draft;
    other.mlp_alone = true;
    return offer(std::move(other));
  }

  static void recompute_first(std::int32_t first, Draft& draft) {
    std::size_t layer = 0;
    for (const std::int32_t count : draft.layers) {
      for (std::int32_t i = 0; i < count; ++i) draft.choices[layer++].recompute = i < first;
    }
  }

  static void recompute_every(std::int32_t every, Draft& draft) {
    draft.every = every;
    std::size_t layer = 0;
    for (const std::int32_t count : draft.layers) {
      for (std::int32_t i = 1; i <= count; ++i) draft.choices[layer++].recompute = i % every == 0;
    }
  }

  // How many first layers of each stage are recomputed.
  static std::int32_t first_recomputed(const Draft& draft) {
    std::int32_t most = 0;
    std::size_t layer = 0;
    for (const std::int32_t count : draft.layers) {
      std::int32_t here = 0;
      for (std::int32_t i = 0; i < count; ++i) here += draft.choices[layer++].recompute ? 1 : 0;
      most = std::max(most, here);
    }
    return most;
  }

  void polish(ScoredDraft best) {
    bool better = true;
    while (better && !run_.stopped()) {
      better = false;
      const Draft from = best.draft;
      offer_relatives(from, [&](Draft near) {
        better = take_better(std::move(near), best) || better;
        return !run_.stopped();
      });
    }
  }

  bool take_better(Draft draft, ScoredDraft& best) {
    const Score score = price(draft);
    if (!score.better_than(best.score)) return false;
    best = {std::move(draft), score};
    return true;
  }

  bool offer_relatives(const Draft& draft, const Offer& offer) const {
    if (space_.knobs.uneven_stages && !offer_moved_layers(draft, offer)) return false;
    if (limits_.recompute == Reach::kLayer) {
      if (!offer_flipped_layers(draft, offer)) return false;
    } else {
      const Draft plain = with_recompute(draft, 0);
      if (!offer_recomputed(plain, offer) || !offer(plain)) return false;
    }
    const bool mixes = limits_.tensor_parallel == Reach::kLayer && space_.mixed_splits;
    return !mixes || offer_other_splits(draft, offer);
  }

  static Draft with_recompute(Draft draft, std::int32_t first) {
    draft.mlp_alone = false;
    draft.every = 0;
    recompute_first(first, draft);
    return draft;
  }

  // A layer from any stage to any other; what the target recomputes of each stage is kept.
  bool offer_moved_layers(const Draft& draft, const Offer& offer) const {
    const std::int32_t first = first_recomputed(draft);
    for (std::size_t from = 0; from < draft.layers.size(); ++from) {
      for (std::size_t to = 0; to < draft.layers.size(); ++to) {
        if (from == to || draft.layers[from] < 2) continue;
        Draft moved = draft;
        --moved.layers[from];
        ++moved.layers[to];
        if (moved.every > 0) recompute_every(moved.every, moved);
        if (limits_.recompute != Reach::kLayer && !moved.mlp_alone && moved.every == 0) recompute_first(first, moved);
        if (!offer(std::move(moved))) return false;
      }
    }
    return true;
  }

  bool offer_flipped_layers(const Draft& draft, const Offer& offer) const {
    if (!space_.knobs.recompute) return true;
    for (std::size_t i = 0; i < draft.choices.size(); ++i) {
      Draft flipped = draft;
      flipped.choices[i].recompute = !flipped.choices[i].recompute;
      if (!offer(std::move(flipped))) return false;
    }
    for (std::int32_t first = 0; first <= *std::max_element(draft.layers.begin(), draft.layers.end()); ++first) {
      if (!offer(with_recompute(draft, first))) return false;
    }
    return true;
  }

  // Another split for one layer, for all from it on, or for what stands at the ends.
  bool offer_other_splits(const Draft& draft, const Offer& offer) const {
    const auto stages = static_cast<std::int32_t>(draft.layers.size());
    for (const Split& split : space_.splits(run_.model(), draft.microbatch, space_.devices / draft.seats)) {
      if (!honours(split, stages)) continue;
      Draft ends = draft;
      ends.ends = split;
      if (!offer(std::move(ends))) return false;
      for (std::size_t i = 0; i < draft.choices.size(); ++i) {
        Draft one = draft;
        one.choices[i].split = split;
        Draft rest = draft;
        for (std::size_t j = i; j < draft.choices.size(); ++j) rest.choices[j].split = split;
        if (!offer(std::move(one)) || !offer(std::move(rest))) return false;
      }
    }
    return true;
  }

  // One default for what is not sharded by parameters.
  [[nodiscard]] bool one_kind(const Draft& draft) const {
    if (!limits_.one_sharded_kind) return true;
    const Split* usual = nullptr;
    const auto fits = [&](const Split& split) {
      if (split.sharded == ShardedLevel::kParameters || split.dp == 1) return true;
      if (usual == nullptr) usual = &split;
      return usual->sharded == split.sharded;
    };
    return fits(draft.ends) && std::all_of(draft.choices.begin(), draft.choices.end(),
                                           [&](const LayerChoice& choice) { return fits(choice.split); });
  }

  Score price(const Draft& draft) { return one_kind(draft) ? run_.consider(candidate_of(draft)) : Score{}; }

  [[nodiscard]] bool is_recomputed(const Draft& draft, std::size_t layer, std::int32_t op) const {
    if (!draft.mlp_alone) return draft.choices[layer].recompute;
    const std::string& kind = run_.model().operators[op].kind;
    return kind == "mlp" || kind == "feedforward";
  }

  [[nodiscard]] Candidate candidate_of(const Draft& draft) const {
    Candidate candidate;
    candidate.microbatch = draft.microbatch;
    candidate.sliced_microbatches = 0;
    candidate.sub_batches = SubBatches{};
    if (space_.interleaved) candidate.seats = draft.seats;
    const auto stages = static_cast<std::int32_t>(draft.layers.size());
    std::size_t layer = 0;
    for (std::int32_t s = 0; s < stages; ++s) {
      CandidateStage stage;
      stage.devices = space_.devices / draft.seats;
      stage.recompute.emplace();
      if (s == 0 && parts_.before.size() > 0) append_split(stage, parts_.before.end, draft.ends);
      for (std::int32_t i = 0; i < draft.layers[s]; ++i, ++layer) {
        const Range& operators = parts_.layers[layer];
        append_split(stage, operators.end, draft.choices[layer].split);
        for (std::int32_t op = operators.begin; op < operators.end; ++op) {
          if (is_recomputed(draft, layer, op)) stage.recompute->push_back({op, op + 1});
        }
      }
      if (s + 1 == stages && parts_.after.size() > 0) append_split(stage, parts_.after.end, draft.ends);
      close(stage);
      candidate.stages.push_back(std::move(stage));
    }
    return candidate;
  }

  static void close(CandidateStage& stage) {
    stage.end = stage.segments.back().end;
    stage.split = stage.segments.front().split;
    if (stage.segments.size() == 1) stage.segments.clear();
    stage.recompute = normalized(std::move(*stage.recompute));
  }

  SearchRun& run_;
  const PlanSpace& space_;
  TargetLimits limits_;
  ModelLayers parts_;
  std::optional<std::int32_t> held_degree_;  // of all shards; nothing: any
  std::vector<ScoredDraft> shapes_;
};

}  // namespace

StrategyEnd run_target(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  const std::string& target = run.options().target;
  if (!limits_plans(target)) {
    return {.stopped = "converged", .refusal = "needs a target with limits of its own (search --target)"};
  }
  auto limits = target_limits(target);
  if (!limits.ok()) return {.stopped = "converged", .refusal = limits.error().message};
  auto layers = layers_of(run.model());
  if (!layers.ok()) return {.stopped = "converged", .refusal = layers.error().message};
  return TargetSearch(run, std::move(*limits), std::move(*layers)).search();
}

}  // namespace trimtab::tuner
