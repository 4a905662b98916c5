#include "recompute_polish.hpp"

#include <algorithm>
#include <utility>

#include "recompute_choice.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};
constexpr std::int32_t kExchangeOperators = 48;  // a larger stage's operators are changed one by one only
constexpr std::int32_t kSubsetOperators = 10;    // in place of an excluded plan, every set of such a small stage

class RecomputeDescent {
 public:
  // `from_excluded`: the start itself must not be returned, any neighbour is better.
  RecomputeDescent(SearchRun& run, Candidate candidate, std::vector<std::vector<Range>> sets, bool from_excluded)
      : run_(run), candidate_(std::move(candidate)), from_excluded_(from_excluded) {
    std::int32_t first_device = 0;
    const std::size_t count = candidate_.stages.size();
    pipeline_.resize(count);
    for (std::size_t s = 0; s < count; ++s) {
      shapes_.push_back(run_.evaluator().shape_of(candidate_, s, first_device));
      first_devices_.push_back(first_device);
      prices_.push_back(run_.evaluator().price_stage(shapes_[s], first_device, sets[s]));
      const std::int32_t devices = candidate_.stages[s].devices;
      if (s + 1 < count) {
        pipeline_[s].transfer = run_.evaluator().transfer(candidate_.stages[s].end, candidate_.microbatch, first_device,
                                                          devices, candidate_.stages[s + 1].devices);
      }
      first_device += devices;
    }
  }

  void run() {
    if (!from_excluded_) best_ms_ = step_ms();
    do {
      better_stage_ = kNone;
      for (std::size_t s = 0; s < shapes_.size() && !run_.stopped(); ++s) change_stage(s);
      if (better_stage_ != kNone) prices_[better_stage_] = better_;
    } while (better_stage_ != kNone && !run_.stopped());
  }

 private:
  void change_stage(std::size_t s) {
    // Without synchronization the cheapest set is the best one.
    if (!from_excluded_ && shapes_[s].dp == 1) return;
    const Range inside = shapes_[s].operators;
    StagePrice start = prices_[s];
    RecomputeFlags flags(static_cast<std::size_t>(run_.space().operators), 0);
    set_flags(start.recompute, inside, flags);
    if (from_excluded_ && inside.size() <= kSubsetOperators) {
      try_subsets(s, flags);
    } else {
      try_exchanges(s, flags);
    }
    prices_[s] = std::move(start);
  }

  void try_subsets(std::size_t s, RecomputeFlags& flags) {
    const Range inside = shapes_[s].operators;
    for (std::uint32_t subset = 0; subset < (1U << inside.size()); ++subset) {
      for (std::int32_t i = 0; i < inside.size(); ++i) flags[inside.begin + i] = (subset >> i) & 1U;
      attempt(s, flags);
    }
  }

  void try_exchanges(std::size_t s, RecomputeFlags& flags) {
    const Range inside = shapes_[s].operators;
    for (std::int32_t i = inside.begin; i < inside.end; ++i) {
      flags[i] ^= 1U;
      attempt(s, flags);
      for (std::int32_t j = i + 1; j < inside.end && inside.size() <= kExchangeOperators; ++j) {
        if (flags[i] != flags[j]) continue;  // i is changed already: these two differed
        flags[j] ^= 1U;
        attempt(s, flags);
        flags[j] ^= 1U;
      }
      flags[i] ^= 1U;
    }
  }

  void attempt(std::size_t s, const RecomputeFlags& flags) {
    if (run_.stopped()) return;
    prices_[s] = run_.evaluator().price_stage(shapes_[s], first_devices_[s], ranges_of(flags, shapes_[s].operators));
    if (prices_[s].excess_bytes > 0) return;
    Score score;
    score.priced = true;
    score.ms = step_ms();
    const bool allowed = run_.consider_plan(score, [this] { return plan(); });
    if (!allowed || score.ms >= best_ms_) return;
    best_ms_ = score.ms;
    better_ = prices_[s];
    better_stage_ = s;
  }

  double step_ms() {
    for (std::size_t s = 0; s < prices_.size(); ++s) {
      const StageTimes& times = prices_[s].times;
      pipeline_[s] = {times.forward, times.backward_pass(), times.last_backward, times.tail(), pipeline_[s].transfer};
    }
    return run_.evaluator().simulate_step(pipeline_.data(), static_cast<std::int32_t>(pipeline_.size()),
                                          run_.model().global_batch / candidate_.microbatch);
  }

  [[nodiscard]] Plan plan() const {
    std::vector<std::vector<Range>> recompute;
    for (const StagePrice& price : prices_) recompute.push_back(price.recompute);
    return plan_of(candidate_, run_.model(), recompute);
  }

  SearchRun& run_;
  Candidate candidate_;
  bool from_excluded_;
  std::vector<StageShape> shapes_;
  std::vector<std::int32_t> first_devices_;
  std::vector<StagePrice> prices_;
  std::vector<PipelineStage> pipeline_;
  double best_ms_ = std::numeric_limits<double>::infinity();
  StagePrice better_;  // of one stage: the best change of a round
  std::size_t better_stage_ = kNone;
};

std::vector<std::vector<Range>> sets_of(const Plan& plan) {
  std::vector<std::vector<Range>> sets;
  for (const Stage& stage : plan.stages) {
    std::vector<Range> ranges;
    for (const Segment& segment : stage.segments) {
      ranges.insert(ranges.end(), segment.recompute.begin(), segment.recompute.end());
    }
    sets.push_back(normalized(std::move(ranges)));
  }
  return sets;
}

bool recomputes_beside_synchronization(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    const bool any = std::any_of(stage.segments.begin(), stage.segments.end(),
                                 [](const Segment& segment) { return !segment.recompute.empty(); });
    return stage.devices.size() > 1 && any;
  });
}

}  // namespace

void polish_recompute(SearchRun& run) {
  if (!run.space().knobs.recompute) return;
  for (const Candidate& refused : std::vector<Candidate>(run.refused())) {
    std::vector<std::vector<Range>> sets = sets_of(run.evaluator().plan(refused));
    RecomputeDescent(run, refused, std::move(sets), true).run();
  }
  for (const Plan& plan : run.shortlist().plans()) {
    const std::optional<Candidate> candidate = candidate_of(plan, run.space());
    if (!candidate || !recomputes_beside_synchronization(plan)) continue;
    RecomputeDescent(run, *candidate, sets_of(plan), false).run();
  }
}

}  // namespace trimtab::tuner
