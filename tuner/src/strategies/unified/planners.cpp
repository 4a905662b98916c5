#include "strategies/unified/planners.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner::unified {
namespace {

constexpr std::int32_t kModerate = 64;  // devices

constexpr std::array<Planner, kParts - 2> kPlanners{{{{"h3t", run_h3t}},
                                                     {{"oases", run_oases}},
                                                     {{"galvatron", run_galvatron}},
                                                     {{"autopipe", run_autopipe}, kModerate},
                                                     {{"aceso", run_aceso}}}};

}  // namespace

std::span<const Planner> planners() {
  return kPlanners;
}

const Planner& planner_named(std::string_view name) {
  const auto* const found =
      std::find_if(kPlanners.begin(), kPlanners.end(), [&](const Planner& one) { return one.strategy.name == name; });
  TRIMTAB_ASSERT(found != kPlanners.end(), "a planner is asked for by its name");
  return *found;
}

Asked ask(SearchRun& run, const Planner& planner, const std::optional<Candidate>& start, Share share) {
  const SearchOptions& whole = run.options();
  SearchOptions options = whole;
  const auto evaluations = static_cast<double>(whole.max_evaluations);
  if (share == Share::kPart) {
    options.max_evaluations = whole.max_evaluations / kParts;
  } else {
    options.max_evaluations = static_cast<std::uint64_t>(std::max(0.0, evaluations * (1 - run.spent())));
  }
  if (whole.max_evaluations > 0 && options.max_evaluations == 0) return {{}, {}, true};
  const bool timed = whole.spent && share == Share::kPart;
  const double until = timed ? whole.spent() + 1.0 / kParts : 1;
  options.spent = nullptr;
  // Not the whole's evaluations: a part gets its own, even where another one has taken more than its.
  options.stop = [&] { return (whole.stop && whole.stop()) || (timed && whole.spent() >= until); };
  SearchRun part(run.evaluator(), options);
  run.evaluator().stop_when([&part] { return part.over(); });
  Asked asked{run_strategy(planner.strategy, part, start), {}, false};
  run.evaluator().stop_when([&run] { return run.over(); });
  asked.cut_short = part.stopped();
  asked.trace = std::move(part.trace());
  run.take_over(part);
  return asked;
}

}  // namespace trimtab::tuner::unified
