#include <catch2/catch.hpp>

#include "tuner/search.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

test::World world_with_memory(Bytes memory) {
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < 6; ++i) {
    test::OperatorTruth of;
    of.cost_key = i < 4 ? "light" : "heavy";
    of.forward_ns = i < 4 ? 1000000 : 4000000;
    of.stored_bytes = 1000;
    of.output_bytes = 100;
    of.parameter_bytes = 50;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 2, 4, {1, 2, 4});
  test::add_links(world, 10000, 1000);
  world.cluster.nodes[0].memory_bytes = memory;
  return world;
}

SearchOutcome run(const test::World& world, const std::string& strategy = "aceso") {
  const CostTable table = world.table();
  SearchOptions options;
  options.strategy = strategy;
  return search(NativeCostModel(table), Knobs{}, options).value();
}

TEST_CASE("an explanation names the bound, every stage, the runner-up and how much could be left") {
  const test::World world = world_with_memory(0);
  SearchOutcome outcome = run(world);
  outcome.result.proven = false;
  outcome.result.lower_bound_ms *= 0.9;
  const std::string text = explain(outcome, world.model);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("The best plan takes ") && Catch::Contains("What bounds it: stage ") &&
                       Catch::Contains("stage 0: operators 0 to ") && Catch::Contains("It recomputes nothing") &&
                       Catch::Contains("The runner-up (") && Catch::Contains("No plan takes less than "));
  CHECK_THAT(text, Catch::Contains("of its costs are estimates") || !Catch::Contains("estimates"));
}

TEST_CASE("an explanation says what is traded for memory") {
  const test::World world = world_with_memory(4000);
  const std::string text = explain(run(world), world.model);
  INFO(text);
  CHECK_THAT(text, Catch::Contains("It trades time for memory: "));
}

TEST_CASE("an explanation of an exhaustive search says that it is proven") {
  const test::World world = world_with_memory(0);
  CHECK_THAT(explain(run(world, "exhaustive"), world.model), Catch::Contains("Proven: no plan of the space is faster"));
}

TEST_CASE("an explanation of an infeasible search is its reason") {
  const test::World world = world_with_memory(1200);
  const SearchOutcome outcome = run(world);
  REQUIRE(outcome.result.plans.empty());
  CHECK_THAT(explain(outcome, world.model), Catch::Contains("no plan fits"));
}

}  // namespace
}  // namespace trimtab::tuner
