#include "strategies/aceso/polish.hpp"
#include "strategies/candidates.hpp"

#include <algorithm>
#include <utility>

#include "plan/recompute_flags.hpp"
#include "strategies/aceso/bottleneck.hpp"

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
    for (std::size_t s = 0; s < candidate_.stages.size(); ++s) candidate_.stages[s].recompute = std::move(sets[s]);
  }

  void run() {
    if (!from_excluded_) from_ms_ = best_ms_ = run_.evaluator().price(candidate_).ms;
    do {
      better_stage_ = kNone;
      for (std::size_t s = 0; s < candidate_.stages.size() && !run_.stopped(); ++s) change_stage(s);
      if (better_stage_ != kNone) take_better();
    } while (better_stage_ != kNone && !run_.stopped());
  }

 private:
  void take_better() {
    std::vector<Range>& set = *candidate_.stages[better_stage_].recompute;
    if (from_ms_ < std::numeric_limits<double>::infinity()) record(set);
    set = better_;
    from_ms_ = best_ms_;
  }

  // inc-rc and dec-rc by themselves: the same memory, recomputed at another time of the step.
  void record(const std::vector<Range>& before) {
    const auto beyond = [](const std::vector<Range>& ranges, const std::vector<Range>& others) {
      std::int32_t count = 0;
      for (const Range& range : ranges) {
        for (std::int32_t op = range.begin; op < range.end; ++op) {
          count += std::none_of(others.begin(), others.end(), [op](const Range& other) { return other.contains(op); });
        }
      }
      return count;
    };
    const std::string stage = " stage " + std::to_string(better_stage_);
    const std::int32_t more = beyond(better_, before);
    const std::int32_t less = beyond(before, better_);
    std::string what;
    if (more > 0) what = "inc-rc" + stage + " (" + std::to_string(more) + ")";
    if (more > 0 && less > 0) what += " + ";
    if (less > 0) what += "dec-rc" + stage + " (" + std::to_string(less) + ")";
    run_.step(timed_step(run_, candidate_.stages.size(),
                         bottleneck_text(static_cast<std::int32_t>(better_stage_), Resource::kCommunication),
                         std::move(what), from_ms_, best_ms_));
  }

  [[nodiscard]] Range operators_of(std::size_t s) const { return {candidate_.begin_of(s), candidate_.stages[s].end}; }

  // Where nothing happens beside the last backward, the cheapest set is the best one.
  [[nodiscard]] bool order_matters(std::size_t s) {
    const StagePrice& price = run_.evaluator().stage(candidate_, s);
    return price.last_backward > price.backward + price.recompute || price.sync > 0;
  }

  void change_stage(std::size_t s) {
    if (!from_excluded_ && !order_matters(s)) return;
    const Range inside = operators_of(s);
    const std::vector<Range> start = *candidate_.stages[s].recompute;
    RecomputeFlags flags(static_cast<std::size_t>(run_.space().operators), 0);
    set_flags(start, inside, flags);
    if (from_excluded_ && inside.size() <= kSubsetOperators) {
      try_subsets(s, flags);
    } else {
      try_exchanges(s, flags);
    }
    candidate_.stages[s].recompute = start;
  }

  void try_subsets(std::size_t s, RecomputeFlags& flags) {
    const Range inside = operators_of(s);
    for (std::uint32_t subset = 0; subset < (1U << inside.size()); ++subset) {
      for (std::int32_t i = 0; i < inside.size(); ++i) flags[inside.begin + i] = (subset >> i) & 1U;
      attempt(s, flags);
    }
  }

  void try_exchanges(std::size_t s, RecomputeFlags& flags) {
    const Range inside = operators_of(s);
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
    candidate_.stages[s].recompute = ranges_of(flags, operators_of(s));
    if (run_.evaluator().stage(candidate_, s).excess_bytes > 0) return;
    const Score score = run_.evaluator().price(candidate_);
    const bool allowed = run_.consider_plan(score, [this] { return run_.evaluator().plan(candidate_); });
    if (!allowed || !score.fits() || score.ms >= best_ms_) return;
    best_ms_ = score.ms;
    better_ = *candidate_.stages[s].recompute;
    better_stage_ = s;
  }

  SearchRun& run_;
  Candidate candidate_;
  bool from_excluded_;
  double best_ms_ = std::numeric_limits<double>::infinity();
  double from_ms_ = std::numeric_limits<double>::infinity();  // before the round; infinite = of no plan to return
  std::vector<Range> better_;                                 // of one stage: the best change of a round
  std::size_t better_stage_ = kNone;
};

bool recomputes_beside_synchronization(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    const bool any = std::any_of(stage.segments.begin(), stage.segments.end(),
                                 [](const Segment& segment) { return !segment.recompute.empty(); });
    return stage.devices.size() > 1 && any;
  });
}

}  // namespace

void polish_recompute(SearchRun& run) {
  if (!run.space().knobs.recompute || run.space().derived_recompute) return;
  for (const Candidate& refused : std::vector<Candidate>(run.refused())) {
    std::vector<std::vector<Range>> sets = recomputed_of(run.evaluator().plan(refused));
    RecomputeDescent(run, refused, std::move(sets), true).run();
  }
  for (const Plan& plan : run.shortlist().plans()) {
    const std::optional<Candidate> candidate = candidate_of(plan, run.space());
    if (!candidate || !recomputes_beside_synchronization(plan)) continue;
    RecomputeDescent(run, *candidate, recomputed_of(plan), false).run();
  }
}

}  // namespace trimtab::tuner
