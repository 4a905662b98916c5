#include "simulation/initial_plan.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "simulation/unmodelled_planner.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kCautious = 0.92;      // of a device's memory: what people leave free
constexpr std::uint64_t kByHand = 300;  // plans that somebody may have looked at
constexpr std::size_t kPlansByHand = 20;
constexpr std::uint64_t kLonger = 4;           // times as many, where nothing has fitted so far
constexpr std::uint64_t kMostTried = 100'000;  // then the other strategy

tuner::SearchOptions options_of(const SimulationInput& input, std::uint64_t evaluations) {
  tuner::SearchOptions options;
  options.seed = input.seed;
  options.max_evaluations = evaluations;
  options.plans = kPlansByHand;
  return options;
}

// The worst first: it is the tuner's to find the others.
std::vector<Plan> worst_first(const SearchResult& result) {
  std::vector<Plan> plans;
  for (const RankedPlan& ranked : result.plans) plans.insert(plans.begin(), ranked.plan);
  return plans;
}

// What a short search with the costs that the tuner has finds on devices with less memory.
Result<std::vector<Plan>> plans_by_hand(const SimulationInput& input, const Model& model, Cluster cluster) {
  for (Node& node : cluster.nodes) {
    node.memory_bytes = static_cast<Bytes>(kCautious * static_cast<double>(node.memory_bytes));
  }
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(model, cluster, input.costs, {true}));
  TRIMTAB_TRY(const tuner::SearchOutcome outcome,
              tuner::search(tuner::NativeCostModel(std::move(table)), input.job.knobs, options_of(input, kByHand)));
  return worst_first(outcome.result);
}

std::optional<Plan> first_that_fits(const std::vector<Plan>& plans, GroundTruth& truth) {
  for (const Plan& plan : plans) {
    if (truth.price(plan).fits) return plan;
  }
  return std::nullopt;
}

// Whoever trains this job has found a plan that lives, however long that took. Searches that know how much memory is
// truly needed, the shortest first, so that it is no better a plan than it must be.
Result<Plan> plan_by_trying(const SimulationInput& input, GroundTruth& truth) {
  std::string why;
  for (const char* strategy : {"aceso", "unified"}) {
    const bool is_first = std::string_view(strategy) == "aceso";
    for (std::uint64_t tried = is_first ? kByHand : kMostTried; tried <= kMostTried; tried *= kLonger) {
      tuner::SearchOptions options = options_of(input, tried);
      options.strategy = strategy;
      TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(truth.cost_model(), input.job.knobs, options));
      if (auto plan = first_that_fits(worst_first(outcome.result), truth)) return *std::move(plan);
      why = outcome.infeasible;
      if (outcome.result.stopped != "budget") break;
    }
  }
  return no("no plan to begin with was found that truly fits into memory: " + why +
            ". Give the job more devices or memory, or name a plan in the job file: initial_plan = ...");
}

}  // namespace

Result<std::string> initial_plan(const SimulationInput& input, const Model& model, const Cluster& cluster,
                                 GroundTruth& truth) {
  if (!input.job.initial_plan_json.empty()) {
    const auto plan = parse_plan(input.job.initial_plan_json, "the job's initial plan");
    // A plan that breaks a rule is the tuning machine's to refuse.
    if (!plan.ok() || !tuner::validate(*plan, model, cluster).empty()) return input.job.initial_plan_json;
    const Prediction prediction = truth.cost_model().evaluate(*plan);
    if (prediction.priced()) return input.job.initial_plan_json;
    return bad_input("the job's initial plan is not priced, so nothing can be simulated: " +
                     prediction.missing_costs.front());
  }
  if (const auto plan = first_that_fits(plain_plans(model, cluster, input.job.knobs, input.seed), truth)) {
    return to_json(*plan);
  }
  TRIMTAB_TRY(const std::vector<Plan> by_hand, plans_by_hand(input, model, cluster));
  if (const auto plan = first_that_fits(by_hand, truth)) return to_json(*plan);
  TRIMTAB_TRY(const Plan tried, plan_by_trying(input, truth));
  return to_json(tried);
}

}  // namespace trimtab::coordinator
