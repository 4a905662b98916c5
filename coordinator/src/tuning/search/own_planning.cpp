#include "tuning/search/own_planning.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "schema/job_without_plan.hpp"
#include "tuning/search/own_candidates.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kInterval = 1.960;  // standard deviations: 95 %, two-sided

// What was measured of plans that differ from the incumbent in own settings alone.
Result<std::vector<OwnMeasurement>> own_measurements(const SearchTask& task, const Plan& incumbent) {
  const std::string base = semantic_hash(without_own(incumbent));
  std::vector<OwnMeasurement> all;
  for (const MeasuredPlan& one : task.observations) {
    TRIMTAB_TRY(Plan plan, one.plan.needed("a measured plan"));
    if (one.measured_ms <= 0 || semantic_hash(without_own(plan)) != base) continue;
    all.push_back({std::move(plan.own), one.measured_ms, one.sigma_ms / one.measured_ms});
  }
  return all;
}

double measured_ms(const SearchTask& task, const std::string& hash) {
  const auto found = std::ranges::find_if(task.observations.rbegin(), task.observations.rend(),
                                          [&](const MeasuredPlan& one) { return one.plan.hash == hash; });
  return found == task.observations.rend() ? 0 : found->measured_ms;
}

// What is expected of it beside the incumbent's measured time.
Predicted expected(const Estimate& log_gain, double incumbent_ms) {
  const double mean = incumbent_ms * std::exp(-log_gain.mean);
  const double spread = std::exp(kInterval * log_gain.sigma);
  return {0, mean, mean / spread, mean * spread, true};
}

// The incumbent under other settings of the job's own knobs. `words`: of the plan without them.
Result<std::vector<PricedPlan>> own_plans(const SearchTask& task, const Plan& incumbent, const std::string& words) {
  std::vector<PricedPlan> plans;
  if (task.own_knobs.empty()) return plans;
  const double incumbent_ms = measured_ms(task, semantic_hash(incumbent));
  if (incumbent_ms <= 0) return plans;
  TRIMTAB_TRY(const std::vector<OwnMeasurement> measured, own_measurements(task, incumbent));
  Plan plan = incumbent;
  for (OwnCandidate& one : own_candidates(task.own_knobs, task.own_written, incumbent.own, measured)) {
    plan.own = std::move(one.settings);
    PricedPlan priced{PlanText(plan, words_with_own(words, plan.own)), semantic_hash(layout_of(plan)),
                      expected({one.log_gain, one.gain_sigma}, incumbent_ms)};
    priced.log_gain = one.log_gain;
    priced.gain_sigma = one.gain_sigma;
    if (std::ranges::find(task.excluded, priced.plan.hash) == task.excluded.end()) plans.push_back(std::move(priced));
  }
  return plans;
}

// Of no time: nothing prices it.
PricedPlan unpriced(const Plan& plan) {
  const std::string words = plan.own.empty() ? "as launched" : own_words(plan.own);
  return {PlanText(plan, words), semantic_hash(layout_of(plan)), {}};
}

Result<Plan> launched_plan(const SearchTask& task, const PlanText& text) {
  if (text.empty()) return plan_as_launched(task.ranks, {});
  return text.needed("a plan of the job");
}

}  // namespace

Plan without_own(Plan plan) {
  plan.own.clear();
  return plan;
}

std::string words_with_own(const std::string& words, const OwnSettings& own) {
  const std::string of_own = own_words(own);
  if (of_own.empty()) return words;
  return words.empty() ? of_own : words + ", " + of_own;
}

Status add_own_plans(const SearchTask& task, const Plan& incumbent, const std::string& words,
                     std::vector<PricedPlan>& candidates) {
  TRIMTAB_TRY(std::vector<PricedPlan> own, own_plans(task, incumbent, words));
  // Where the incumbent has no price, plans stay as they were found.
  const bool ranked = std::ranges::all_of(candidates, [](const PricedPlan& one) { return one.gain_sigma >= 0; });
  const auto as_found = ranked ? 0 : std::ssize(candidates);
  std::ranges::move(own, std::back_inserter(candidates));
  std::ranges::stable_sort(candidates.begin() + as_found, candidates.end(), std::greater(), promise);
  return {};
}

Result<SearchReply> plan_own_alone(const SearchTask& task) {
  SearchReply reply;
  TRIMTAB_TRY(const Plan initial, launched_plan(task, task.initial));
  TRIMTAB_TRY(const Plan incumbent, launched_plan(task, task.incumbent.empty() ? task.initial : task.incumbent));
  reply.initial = unpriced(initial);
  reply.incumbent = unpriced(incumbent);
  for (const MeasuredPlan& one : task.observations) {
    TRIMTAB_TRY(const Plan plan, launched_plan(task, one.plan));
    reply.observed.push_back({unpriced(plan).layout, {}});
  }
  TRIMTAB_TRY_STATUS(add_own_plans(task, incumbent, "", reply.candidates));
  reply.evaluations = reply.candidates.size();
  return reply;
}

}  // namespace trimtab::coordinator
