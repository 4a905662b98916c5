#include "papers/galvatron/galvatron_evaluator.hpp"

#include <algorithm>
#include <cstdio>

#include "papers/galvatron/layerwise_search.hpp"

namespace trimtab::tuner::galvatron {
namespace {

bool has_level(const PlanSpace& space, ShardedLevel level) {
  return std::find(space.sharded.begin(), space.sharded.end(), level) != space.sharded.end();
}

LayerwiseSpace layerwise_space(const PlanSpace& space, const Model& model) {
  LayerwiseSpace layers;
  layers.batch = model.global_batch;
  layers.microbatches = space.microbatches;
  layers.cuts = space.cuts;
  layers.stages_min = space.stages_min;
  layers.stages_max = space.stages_max;
  layers.tensor_parallel = space.tensor_parallel;
  layers.samples = model.microbatch_per_replica;
  layers.replicas = space.knobs.data_parallel;
  layers.mixed = space.mixed_splits;
  layers.mixes = space.replicated_shards;
  layers.sharded = has_level(space, ShardedLevel::kParameters);
  layers.shared_states = has_level(space, ShardedLevel::kGradients);
  layers.recompute = space.knobs.recompute;
  layers.strided = space.name.starts_with("galvatron");
  return layers;
}

std::string fixed(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// "2 stages, 8 microbatches", "adjusted 15 17, alpha_t 0.498, alpha_m 0.481".
SearchStep step_of(const Tried& tried, std::uint64_t evaluations) {
  SearchStep step;
  step.evaluations = evaluations;
  step.stages = static_cast<std::int32_t>(tried.plan->stages.size());
  step.bottleneck = std::to_string(tried.plan->microbatches) + " microbatches";
  step.primitive = step.stages == 1 ? "one stage" : tried.step;
  for (const auto& stage : tried.plan->stages) step.primitive += " " + std::to_string(stage.operators.size());
  step.primitive +=
      ", alpha_t " + fixed(tried.balance.time, "%.3f") + ", alpha_m " + fixed(tried.balance.memory, "%.3f");
  const bool first = tried.before_ms == std::numeric_limits<double>::infinity();
  step.before_ms = first ? tried.ms : tried.before_ms;
  step.after_ms = tried.ms;
  return step;
}

// Algorithm 1's loop over batches, as advice: the batch is the job's to choose, and no plan of another one is kept.
void advise_batch(SearchRun& run, const GalvatronEvaluator& evaluator, double best_ms,
                  const std::shared_ptr<LayerwiseTables>& tables) {
  const Formulas& formulas = evaluator.galvatron().formulas();
  const Model& model = run.model();
  double best_rate = model.global_batch / best_ms;  // samples per ms
  const double own_rate = best_rate;
  std::int32_t best_batch = model.global_batch;
  const std::int32_t step = std::max(1, formulas.profile().devices);
  constexpr std::int32_t kBatches = 64;
  constexpr int kTooLarge = 4;  // batches in a row that do not fit, or are no better
  int behind = 0;
  for (std::int32_t i = 1; i <= kBatches && behind < kTooLarge && !run.stopped(); ++i) {
    const std::int32_t batch = step * i;
    if (batch == model.global_batch) continue;
    Model other = model;
    other.global_batch = batch;
    LayerwiseSpace space = layerwise_space(run.space(), other);
    space.microbatches = allowed_microbatches(other);
    LayerwiseSearch search(
        formulas, space, nullptr, [&run] { return run.stopped(); }, tables);
    const bool better = search.run(batch / best_rate).has_value();
    behind = better || batch < model.global_batch ? 0 : behind + 1;
    if (!better) continue;
    best_rate = batch / search.best_ms();
    best_batch = batch;
  }
  if (best_batch == model.global_batch) return;
  SearchStep advice;
  advice.evaluations = evaluator.evaluations();
  advice.bottleneck = "advice, not adopted";
  advice.primitive = "a global batch of " + std::to_string(best_batch) + " would run " +
                     fixed(best_rate * 1000, "%.2f") + " samples/s, this one " + fixed(own_rate * 1000, "%.2f");
  advice.before_ms = advice.after_ms = best_ms;  // of this search nothing has changed
  run.step(std::move(advice));
}

// So that a message can say how much too much: everything sharded, split and recomputed.
void consider_leanest(SearchRun& run, Variant variant) {
  const PlanSpace& space = run.space();
  // v1 counts microbatches in a way of its own: any size is as good as the largest.
  std::vector<std::int32_t> sizes = space.microbatches;
  if (variant == Variant::kV1 && !sizes.empty()) sizes = {sizes.back()};
  for (std::int32_t stages = 1; stages <= space.stages_max; stages *= 2) {
    if (stages < space.stages_min || space.devices % stages != 0) continue;
    std::vector<std::int32_t> ends = even_cuts(run.model(), stages);
    ends.push_back(space.operators);
    for (const std::int32_t microbatch : sizes) {
      for (const Split& split : space.splits(run.model(), microbatch, space.devices / stages)) {
        Candidate candidate;
        candidate.microbatch = microbatch;
        std::int32_t begin = 0;
        for (const std::int32_t end : ends) {
          CandidateStage stage;
          stage.end = end;
          stage.devices = space.devices / stages;
          stage.split = split;
          stage.recompute = std::vector<Range>{};
          if (space.knobs.recompute) stage.recompute->push_back({begin, end});
          candidate.stages.push_back(std::move(stage));
          begin = end;
        }
        run.consider(candidate);
        for (CandidateStage& stage : candidate.stages) stage.recompute->clear();
        run.consider(candidate);
      }
    }
  }
}

StrategyEnd search_layerwise(SearchRun& run, GalvatronEvaluator& evaluator) {
  const Formulas& formulas = evaluator.galvatron().formulas();
  const Profile& profile = formulas.profile();
  if (!LayerRanges::fit(profile.type_of)) {
    return {.stopped = "too_large",
            .refusal = "cannot tell apart the ranges of " + std::to_string(profile.type_of.size()) + " layers of " +
                       std::to_string(profile.types.size()) +
                       " types in memory; merge layers that cost the same, or use strategy aceso"};
  }
  const auto keep = [&](const Tried& tried) {
    evaluator.count_plans(1);
    const Score score{true, 0, tried.ms};
    const bool kept = run.consider_plan(score, [&] { return plan_of(*tried.plan, run.model(), formulas); });
    if (kept && tried.better) run.step(step_of(tried, evaluator.evaluations()));
    return kept;
  };
  const LayerwiseSpace space = layerwise_space(run.space(), run.model());
  const auto tables = std::make_shared<LayerwiseTables>(formulas, space);
  LayerwiseSearch search(
      formulas, space, keep, [&run] { return run.stopped(); }, tables);
  search.run();
  const double best_ms = run.shortlist().best_ms();
  StrategyEnd end{"converged"};
  constexpr double kMet = 1 - 1e-9;
  const bool found = best_ms < std::numeric_limits<double>::infinity();
  if (found) end.lower_bound_ms = std::min(search.lower_bound_ms(), best_ms);
  if (run.stopped()) return end;
  end.proven = found && !run.shortlist().excludes_any() && end.lower_bound_ms >= best_ms * kMet;
  if (found) {
    advise_batch(run, evaluator, best_ms, tables);
  } else {
    consider_leanest(run, formulas.variant());
  }
  return end;
}

}  // namespace

StrategyEnd GalvatronEvaluator::search(SearchRun& run, const std::optional<Candidate>& start) {
  if (start) run.consider(*start);
  return search_layerwise(run, *this);
}

}  // namespace trimtab::tuner::galvatron
