#include <catch2/catch.hpp>

#include "../gpt_world.hpp"
#include "chains.hpp"
#include "papers/cost_models.hpp"
#include "papers/oases/tables.hpp"
#include "published.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner::oases {
namespace {

SearchOptions options(const std::string& strategy = "oases") {
  SearchOptions options;
  options.strategy = strategy;
  options.space = "oases";
  return options;
}

SearchOutcome found(const CostModel& model, const SearchOptions& options) {
  auto outcome = search(model, Knobs{}, options);
  INFO((outcome.ok() ? "" : outcome.error().message));
  REQUIRE(outcome.ok());
  return std::move(outcome).value();
}

// The first operators of a published setting, with as much less memory.
OasesCostModel shortened(const test::Setting& setting, std::size_t operators, double share) {
  test::World world = test::world(setting);
  const auto all = static_cast<double>(world.model.operators.size());
  world.model.operators.resize(operators);
  for (Node& node : world.cluster.nodes) {
    const double memory = static_cast<double>(node.memory_bytes) * share * static_cast<double>(operators) / all;
    node.memory_bytes = static_cast<Bytes>(memory);
  }
  return OasesCostModel::build(OasesVariant::kPaper, world.model, world.cluster, world.costs).value();
}

}  // namespace

TEST_CASE("the strategy's best plan is the chain's optimum, proven and valid", "[oases]") {
  int searched = 0;
  for (const test::Setting& setting : test::settings()) {
    for (const OasesVariant variant : {OasesVariant::kPaper, OasesVariant::kPublished}) {
      const auto model = test::cost_model(setting, variant);
      if (!model) continue;
      CAPTURE(setting.name, setting.devices);
      const ChainAnswer expected = test::solve(model->tables().chain, model->tables().variant);
      const SearchOutcome outcome = found(*model, options());
      CHECK(outcome.result.plans.empty() != expected.found);
      if (!expected.found) {
        CHECK_THAT(outcome.infeasible, Catch::Contains("too much") && Catch::Contains("would fit with"));
        continue;
      }
      ++searched;
      const RankedPlan& best = outcome.result.plans.front();
      CHECK(best.prediction.iteration_ms == Approx(expected.cost).epsilon(1e-12));
      CHECK(best.prediction.feasible);
      CHECK(outcome.result.proven);
      CHECK(outcome.result.lower_bound_ms == Approx(expected.cost).epsilon(1e-12));
      CHECK(validate(best.plan, model->model(), model->cluster()).empty());
      CHECK(model->unpriced(best.plan).empty());
      CHECK(best.plan.schedule == overlapped_schedule());
      CHECK_FALSE(outcome.trace.empty());
    }
  }
  CHECK(searched >= 10);
}

TEST_CASE("exhaustive search over the same evaluator finds the same plan", "[oases]") {
  for (const double share : {0.8, 0.9, 1.0, 1.1}) {
    for (const std::size_t operators : {2, 3, 5}) {
      const OasesCostModel model = shortened({"llama-7B", 32}, operators, share);
      const SearchOutcome all = found(model, options("exhaustive"));
      const SearchOutcome ours = found(model, options());
      CAPTURE(share, operators);
      REQUIRE(all.result.plans.empty() == ours.result.plans.empty());
      if (all.result.plans.empty()) continue;
      CHECK(all.result.proven);
      CHECK(ours.result.plans.front().prediction.iteration_ms ==
            Approx(all.result.plans.front().prediction.iteration_ms).epsilon(1e-12));
    }
  }
}

TEST_CASE("at most k degrees on operators in a row", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPublished);
  double before = 1e300;
  for (const std::int32_t most : {1, 2, 3, 0}) {
    SearchOptions limited = options();
    limited.oases.degrees = most;
    const SearchOutcome outcome = found(*model, limited);
    const RankedPlan& best = outcome.result.plans.front();
    if (most > 0) CHECK(best.plan.stages[0].segments.size() <= static_cast<std::size_t>(most));
    CHECK(outcome.result.proven == (most == 0));
    CHECK(best.prediction.iteration_ms <= before);
    before = best.prediction.iteration_ms;
  }
}

TEST_CASE("a limit of degrees proves nothing of the space, which has more", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPaper);
  for (const char* const strategy : {"oases", "unified"}) {
    const double least = found(*model, options()).result.plans.front().prediction.iteration_ms;
    SearchOptions limited = options(strategy);
    limited.oases.degrees = 1;
    const SearchResult result = found(*model, limited).result;
    CAPTURE(strategy);
    CHECK(result.lower_bound_ms <= least * (1 + 1e-9));
    CHECK_FALSE(result.proven);
  }
}

TEST_CASE("an excluded plan is not returned, and nothing is called proven", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPaper);
  const SearchOutcome all = found(*model, options());
  SearchOptions without = options();
  without.excluded = {semantic_hash(all.result.plans.front().plan)};
  const SearchOutcome rest = found(*model, without);
  CHECK_FALSE(rest.result.proven);
  CHECK(rest.result.plans.front().plan == all.result.plans[1].plan);
}

TEST_CASE("a budget and a stop end the search with what it has", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPaper);
  SearchOptions one = options();
  one.max_evaluations = 1;
  const SearchOutcome outcome = found(*model, one);
  CHECK(outcome.result.stopped == "budget");
  CHECK(outcome.result.plans.size() == 1);
  CHECK_FALSE(outcome.result.proven);
  SearchOptions stopped = options();
  stopped.stop = [] { return true; };
  CHECK(found(*model, stopped).result.plans.empty());
}

TEST_CASE("a space without tensor parallelism is refused, with what to use", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPaper);
  SearchOptions job = options();
  job.space = "job";
  const auto refused = search(*model, Knobs{}, job);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("'job'") && Catch::Contains("--space oases"));
}

TEST_CASE("under the native model the chain's plans are priced by that model", "[oases]") {
  const tuner::test::Workload world = tuner::test::gpt_operators(2, 1, 64, true);
  const auto model = make_cost_model("native", world.model, world.cluster, world.costs);
  REQUIRE(model.ok());
  SearchOptions all = options();
  all.space = "all";
  const SearchOutcome outcome = found(*model.value(), all);
  REQUIRE_FALSE(outcome.result.plans.empty());
  const RankedPlan& best = outcome.result.plans.front();
  CHECK(best.plan.stages.size() == 1);
  CHECK(validate(best.plan, world.model, world.cluster).empty());
  CHECK(best.prediction.missing_costs.empty());
  CHECK(best.prediction.iteration_ms == model.value()->evaluate(best.plan).iteration_ms);
  // At least as good as any one split of all devices.
  SearchOptions one = all;
  one.oases.degrees = 1;
  CHECK(best.prediction.iteration_ms <= found(*model.value(), one).result.plans.front().prediction.iteration_ms);
}

TEST_CASE("other strategies search the same space and are not better", "[oases]") {
  const auto model = test::cost_model({"llama-7B", 32}, OasesVariant::kPaper);
  const double best = found(*model, options()).result.plans.front().prediction.iteration_ms;
  for (const char* const strategy : {"aceso", "unified"}) {
    SearchOptions other = options(strategy);
    other.max_evaluations = 20000;
    const SearchOutcome outcome = found(*model, other);
    CAPTURE(strategy);
    REQUIRE_FALSE(outcome.result.plans.empty());
    CHECK(outcome.result.plans.front().prediction.iteration_ms >= best * (1 - 1e-12));
    CHECK(outcome.result.plans.front().plan.schedule == overlapped_schedule());
  }
}

}  // namespace trimtab::tuner::oases
