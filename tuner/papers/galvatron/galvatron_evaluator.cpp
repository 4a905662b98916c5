#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <tuple>

#include "papers/answers/answers.hpp"
#include "papers/galvatron/layerwise_search.hpp"
#include "papers/galvatron_cost_model.hpp"
#include "search/strategy.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {
namespace galvatron {
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
SearchStep step_of(const Tried& tried, const SearchRun& run) {
  const std::size_t stages = tried.plan->stages.size();
  std::string what = stages == 1 ? "one stage" : tried.step;
  for (const auto& stage : tried.plan->stages) what += " " + std::to_string(stage.operators.size());
  what += ", alpha_t " + fixed(tried.balance.time, "%.3f") + ", alpha_m " + fixed(tried.balance.memory, "%.3f");
  return timed_step(run, stages, std::to_string(tried.plan->microbatches) + " microbatches", what, tried.before_ms,
                    tried.ms);
}

// Algorithm 1's loop over batches, as advice: the batch is the job's to choose, and no plan of another one is kept.
void advise_batch(SearchRun& run, const Formulas& formulas, double best_ms,
                  const std::shared_ptr<LayerwiseTables>& tables) {
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
  // Of this search nothing has changed.
  run.step(timed_step(run, 0, "advice, not adopted",
                      "a global batch of " + std::to_string(best_batch) + " would run " +
                          fixed(best_rate * 1000, "%.2f") + " samples/s, this one " + fixed(own_rate * 1000, "%.2f"),
                      best_ms, best_ms));
}

// So that a message can say how much too much: everything sharded, split and recomputed.
void consider_leanest(SearchRun& run, Variant variant) {
  const PlanSpace& space = run.space();
  // v1 counts microbatches in a way of its own: any size is as good as the largest.
  std::vector<std::int32_t> sizes = space.microbatches;
  if (variant == Variant::kV1 && !sizes.empty()) sizes = {sizes.back()};
  for (std::int32_t stages = 1; stages <= space.stages_max; stages *= 2) {
    if (stages < space.stages_min || space.devices % stages != 0) continue;
    const std::vector<std::int32_t> ends = even_ends(run, stages);
    for (const std::int32_t microbatch : sizes) {
      for (const Split& split : space.splits(run.model(), microbatch, space.devices / stages)) {
        Candidate candidate = uniform_candidate(microbatch, ends, space.devices / stages, split);
        for (std::size_t s = 0; s < ends.size(); ++s) {
          std::vector<Range>& recompute = candidate.stages[s].recompute.emplace();
          if (space.knobs.recompute) recompute.push_back({candidate.begin_of(s), ends[s]});
        }
        run.consider(candidate);
        for (CandidateStage& stage : candidate.stages) stage.recompute->clear();
        run.consider(candidate);
      }
    }
  }
}

// Every candidate is written out as a plan and priced anew. Stages of unequal or unordered devices have no price. One
// per search; not thread-safe.
class GalvatronEvaluator final : public Evaluator, public OwnSearch {
 public:
  GalvatronEvaluator(const GalvatronCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), galvatron_(cost_model), formulas_(cost_model.formulas()) {}

  Score price(const Candidate& candidate) override {
    count();
    const Plan plan = this->plan(candidate);
    if (!galvatron_.unpriced(plan).empty()) return {};
    const Prediction prediction = galvatron_.evaluate(plan);
    Score score;
    score.priced = prediction.missing_costs.empty();
    if (!score.priced) return score;
    score.ms = prediction.iteration_ms;
    if (prediction.feasible) return score;
    for (const StagePrediction& stage : prediction.stages) {
      score.excess_bytes = std::max(score.excess_bytes, static_cast<double>(stage.memory_bytes) - limit_bytes());
    }
    return score;
  }

  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override {
    stage_ = {};
    const Plan plan = this->plan(candidate);
    if (!galvatron_.unpriced(plan).empty()) return stage_;
    const Prediction prediction = galvatron_.evaluate(plan);
    if (!prediction.missing_costs.empty()) return stage_;
    stage_ = papers::stage_price(prediction.stages[stage]);
    const double microbatch_ms = stage_.forward + stage_.backward + stage_.recompute + stage_.communication;
    stage_.step_ms = microbatch_ms * plan.microbatches() + stage_.sync;
    papers::set_limit(limit_bytes(), stage_);
    for (const Segment& segment : plan.stages[stage].segments) {
      stage_.recompute_ranges.insert(stage_.recompute_ranges.end(), segment.recompute.begin(), segment.recompute.end());
    }
    return stage_;
  }

  Plan plan(const Candidate& candidate) override {
    std::vector<std::vector<Range>> recompute;
    for (const CandidateStage& stage : candidate.stages) {
      recompute.push_back(stage.recompute.value_or(std::vector<Range>{}));
    }
    return tuner::plan_of(candidate, model(), recompute);
  }

  std::string excess_text(const Candidate& candidate) override {
    const Plan plan = this->plan(candidate);
    const std::vector<std::string> unpriced = galvatron_.unpriced(plan);
    if (!unpriced.empty()) return unpriced.front() + " is not priced";
    return galvatron_.evaluate(plan).infeasible_reason;
  }

  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override {
    const auto [at, fresh] = sums_.try_emplace({microbatch, split.tp, split.dp});
    if (!fresh) return at->second;
    const Profile& profile = formulas_.profile();
    const double samples = static_cast<double>(model().global_batch) / split.dp;
    std::vector<double>& sums = at->second;
    sums.push_back(0);
    for (const std::int32_t type : profile.type_of) {
      sums.push_back(sums.back() + 3 * (profile.types[type].forward_ms * samples / split.tp));
    }
    return sums;
  }

  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "galvatron"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override {
    if (start) run.consider(*start);
    const Profile& profile = formulas_.profile();
    if (!LayerRanges::fit(profile.type_of)) {
      return {.stopped = "too_large",
              .refusal = "cannot tell apart the ranges of " + std::to_string(profile.type_of.size()) + " layers of " +
                         std::to_string(profile.types.size()) +
                         " types in memory; merge layers that cost the same, or use strategy aceso"};
    }
    const auto keep = [&](const Tried& tried) {
      count();  // a plan that candidates cannot express
      const Score score{true, 0, tried.ms};
      const bool kept = run.consider_plan(score, [&] { return plan_of(*tried.plan, run.model(), formulas_); });
      if (kept && tried.better) run.step(step_of(tried, run));
      return kept;
    };
    const LayerwiseSpace space = layerwise_space(run.space(), run.model());
    const auto tables = std::make_shared<LayerwiseTables>(formulas_, space);
    LayerwiseSearch search(
        formulas_, space, keep, [&run] { return run.stopped(); }, tables);
    search.run();
    const double best_ms = run.shortlist().best_ms();
    StrategyEnd end{"converged"};
    constexpr double kMet = 1 - 1e-9;
    const bool found = best_ms < std::numeric_limits<double>::infinity();
    if (found) end.lower_bound_ms = std::min(search.lower_bound_ms(), best_ms);
    if (run.stopped()) return end;
    end.proven = found && !run.shortlist().excludes_any() && end.lower_bound_ms >= best_ms * kMet;
    if (found) {
      advise_batch(run, formulas_, best_ms, tables);
    } else {
      consider_leanest(run, formulas_.variant());
    }
    return end;
  }

 private:
  [[nodiscard]] double limit_bytes() const { return formulas_.profile().memory_limit_mib * kMiB; }

  const GalvatronCostModel& galvatron_;
  const Formulas& formulas_;
  StagePrice stage_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::vector<double>> sums_;
};

}  // namespace
}  // namespace galvatron

std::unique_ptr<Evaluator> GalvatronCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<galvatron::GalvatronEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
