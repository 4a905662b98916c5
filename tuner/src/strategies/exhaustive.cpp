// Brute force: every count of stages, every cut, every split of the devices, every microbatch, and in each stage every
// set of recomputed operators. A set is left out only when another set of the same stage fits too and is at least as
// fast in all that the step's time depends on: the step's time never falls when a stage takes longer.
//
// Restrictions: a stage of more than kSubsetOperators operators is offered three sets: the best choice for its memory,
// none and all; and no more than kSplits splits of the devices for one count of stages are listed. The answer is then
// not called proven.

#include <algorithm>

#include "recompute_choice.hpp"
#include "strategy.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kSubsetOperators = 12;
constexpr std::size_t kSplits = 100000;

bool no_slower(const StageTimes& a, const StageTimes& b) {
  return a.backward_pass() <= b.backward_pass() && a.last_backward <= b.last_backward && a.tail() <= b.tail();
}

class Exhaustive {
 public:
  explicit Exhaustive(SearchRun& run) : run_(run), space_(run.space()) {}

  StrategyEnd search() {
    for (const std::int32_t microbatch : space_.microbatches) {
      for (std::int32_t stages = space_.stages_min; stages <= space_.stages_max; ++stages) {
        const auto splits = space_.device_splits(run_.model(), microbatch, stages, kSplits);
        complete_ = complete_ && splits.size() < kSplits;
        for (const auto& split : splits) {
          candidate_ = {};
          candidate_.microbatch = microbatch;
          for (const std::int32_t devices : split) candidate_.stages.push_back({0, devices, 0});
          choose_cuts(0, 0);
        }
      }
    }
    return {"exhausted", complete_ && !run_.stopped()};
  }

 private:
  void choose_cuts(std::size_t stage, std::size_t first_cut) {
    if (run_.stopped()) return;
    const std::size_t count = candidate_.stages.size();
    if (stage + 1 == count) {
      candidate_.stages[stage].end = space_.operators;
      price_structure();
      return;
    }
    if (!space_.knobs.uneven_stages) {
      candidate_.stages[stage].end = even_cuts(run_.model(), static_cast<std::int32_t>(count))[stage];
      choose_cuts(stage + 1, 0);
      return;
    }
    const std::size_t left = count - stage - 2;  // cuts still to come after this one
    for (std::size_t i = first_cut; i + left < space_.cuts.size(); ++i) {
      candidate_.stages[stage].end = space_.cuts[i];
      choose_cuts(stage + 1, i + 1);
    }
  }

  // All recompute sets of all stages of the current structure.
  void price_structure() {
    run_.consider(candidate_);  // also remembers the closest one when nothing fits
    if (!prepare(true)) return;
    excluded_seen_ = false;
    choose_sets(0);
    // The sets that were left out count again when a better one is not allowed.
    if (excluded_seen_ && prepare(false)) choose_sets(0);
  }

  bool prepare(bool leave_out_slower) {
    const std::size_t count = candidate_.stages.size();
    sets_.assign(count, {});
    pipeline_.assign(count, {});
    chosen_.assign(count, {});
    std::int32_t first_device = 0;
    for (std::size_t s = 0; s < count; ++s) {
      sets_[s] = fitting_sets(s, first_device, leave_out_slower);
      if (sets_[s].empty()) return false;
      const std::int32_t devices = candidate_.stages[s].devices;
      if (s + 1 < count) {
        pipeline_[s].transfer = run_.evaluator().transfer(candidate_.stages[s].end, candidate_.microbatch, first_device,
                                                          devices, candidate_.stages[s + 1].devices);
      }
      first_device += devices;
    }
    return true;
  }

  [[nodiscard]] std::vector<std::vector<Range>> sets_of(const StageShape& shape, std::int32_t first_device) {
    const Range inside = shape.operators;
    if (!space_.knobs.recompute) return {{}};
    if (inside.size() > kSubsetOperators) {
      complete_ = false;
      Evaluator& evaluator = run_.evaluator();
      const double limit = evaluator.memory_limit(first_device, shape.dp);
      if (evaluator.tables().find(shape.samples) == nullptr) return {};
      return {
          {}, choose_recompute(evaluator.tables(), evaluator.calibration(), shape, limit, true).recompute, {inside}};
    }
    std::vector<std::vector<Range>> sets;
    RecomputeFlags flags(static_cast<std::size_t>(space_.operators), 0);
    for (std::uint32_t subset = 0; subset < (1U << inside.size()); ++subset) {
      for (std::int32_t i = 0; i < inside.size(); ++i) flags[inside.begin + i] = (subset >> i) & 1U;
      sets.push_back(ranges_of(flags, inside));
    }
    return sets;
  }

  std::vector<StagePrice> fitting_sets(std::size_t s, std::int32_t first_device, bool leave_out_slower) {
    const StageShape shape = run_.evaluator().shape_of(candidate_, s, first_device);
    std::vector<StagePrice> kept;
    for (const std::vector<Range>& set : sets_of(shape, first_device)) {
      StagePrice price = run_.evaluator().price_stage(shape, first_device, set);
      if (!price.priced || price.excess_bytes > 0) continue;
      if (leave_out_slower) {
        const auto covers = [&price](const StagePrice& other) { return no_slower(other.times, price.times); };
        if (std::any_of(kept.begin(), kept.end(), covers)) continue;
        const auto covered = [&price](const StagePrice& other) { return no_slower(price.times, other.times); };
        kept.erase(std::remove_if(kept.begin(), kept.end(), covered), kept.end());
      }
      kept.push_back(std::move(price));
    }
    return kept;
  }

  void choose_sets(std::size_t stage) {
    if (run_.stopped()) return;
    if (stage == sets_.size()) {
      price_plan();
      return;
    }
    for (const StagePrice& set : sets_[stage]) {
      const StageTimes& times = set.times;
      PipelineStage& of = pipeline_[stage];
      of = {times.forward, times.backward_pass(), times.last_backward, times.tail(), of.transfer};
      chosen_[stage] = &set;
      choose_sets(stage + 1);
    }
  }

  void price_plan() {
    const std::int32_t microbatches = run_.model().global_batch / candidate_.microbatch;
    Score score;
    score.ms =
        run_.evaluator().simulate_step(pipeline_.data(), static_cast<std::int32_t>(pipeline_.size()), microbatches);
    score.priced = score.ms < std::numeric_limits<double>::infinity();
    const bool allowed = run_.consider_plan(score, [this] {
      std::vector<std::vector<Range>> recompute;
      for (const StagePrice* price : chosen_) recompute.push_back(price->recompute);
      return plan_of(candidate_, run_.model(), recompute);
    });
    excluded_seen_ = excluded_seen_ || !allowed;
  }

  SearchRun& run_;
  const PlanSpace& space_;
  Candidate candidate_;
  std::vector<std::vector<StagePrice>> sets_;  // by stage
  std::vector<PipelineStage> pipeline_;
  std::vector<const StagePrice*> chosen_;
  bool excluded_seen_ = false;
  bool complete_ = true;
};

}  // namespace

StrategyEnd run_exhaustive(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return Exhaustive(run).search();
}

}  // namespace trimtab::tuner
