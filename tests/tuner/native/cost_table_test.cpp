#include "tuner/cost_table.hpp"

#include <catch2/catch.hpp>

#include "native/costs/tables.hpp"
#include "papers/aceso/profile.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

test::World one_operator(const std::vector<std::int32_t>& samples, std::int32_t batch = 16) {
  test::OperatorTruth truth;
  truth.cost_key = "op";
  truth.forward_ns = 1000000;
  truth.forward_fixed_ns = 500000;
  return test::make_world({truth}, 1, batch, samples);
}

TEST_CASE("times are exact at measured samples and linear between them") {
  const CostTable table = one_operator({2, 8}).table();
  CHECK(table.tables().at(2).forward[0] == Approx(2.5));
  CHECK(table.tables().at(8).forward[0] == Approx(8.5));
  CHECK(table.tables().at(4).forward[0] == Approx(4.5));
}

TEST_CASE("nothing is extrapolated unless estimates are asked for, and those are flagged") {
  const test::World world = one_operator({2, 8});
  const CostTable strict = world.table();
  const Plan small = test::make_plan(world.model, 1, {1}, {1});
  const Prediction missing = NativeCostModel(strict).evaluate(small);
  CHECK(missing.missing_costs.size() == 4);
  CHECK_THAT(missing.missing_costs[0],
             Catch::Contains("samples=1") && Catch::Contains("(benchmark: operator op with 1 samples)"));
  const CostTable lenient = world.table(true);
  const Prediction estimated = NativeCostModel(lenient).evaluate(small);
  CHECK(estimated.missing_costs.empty());
  CHECK(estimated.estimated_costs.size() == 4);
  // What each sample takes and what every pass takes, 16 times.
  CHECK(estimated.iteration_ms == Approx(16 * (1.0 + 0.5 + 2.0)));
}

TEST_CASE("costs of another model, type or split do not count") {
  test::World world = one_operator({1});
  for (Cost& cost : world.costs) cost.key.dtype = "float16";
  const auto result = CostTable::build(world.model, world.cluster, world.costs);
  REQUIRE_FALSE(result.ok());
  CHECK_THAT(result.error().message, Catch::Contains("found none of its 1 cost keys (op, ...)"));
  world = one_operator({1});
  for (Cost& cost : world.costs) cost.key.tp = 2;  // of no use to a single device
  CHECK_FALSE(CostTable::build(world.model, world.cluster, world.costs).ok());
}

TEST_CASE("a link's bandwidth and latency price what was never measured, flagged") {
  test::World world = one_operator({1, 16});
  world.cluster.nodes[0].devices = 4;
  world.model.operators[0].parameter_bytes = 1000000;
  Link link;
  link.level = "intra_node";
  link.bandwidth_bytes_per_s = 1e9;
  link.latency_us = 10;
  world.cluster.links = {link};
  const CostTable table = world.table();
  const LinkCosts& links = table.tables().links;
  // A ring over 4: 6 steps of latency, 6 / 4 of the bytes.
  const Value ring = links.all_reduce(1000000, 4, Placement::kIntraNode);
  CHECK(ring.mean == Approx(6 * 0.01 + 1.5));
  CHECK(ring.quality == Quality::kEstimated);
  const Value send = links.point_to_point(2000000, 0, 0);
  CHECK(send.mean == Approx(0.01 + 2));
  CHECK(links.all_reduce(1000000, 4, Placement::kInterNode).quality == Quality::kMissing);
}

TEST_CASE("measured links come before estimated ones") {
  test::World world = one_operator({1, 16});
  world.cluster.nodes[0].devices = 2;
  test::add_links(world, 3000000, 0);
  Link link;
  link.level = "intra_node";
  link.bandwidth_bytes_per_s = 1e9;
  world.cluster.links = {link};
  const CostTable table = world.table();
  const LinkCosts& links = table.tables().links;
  CHECK(links.all_reduce(5000, 2, Placement::kIntraNode).mean == Approx(3));
  CHECK(links.all_reduce(5000, 2, Placement::kIntraNode).quality == Quality::kMeasured);
  // Beyond the largest measured size only the link can say.
  CHECK(links.all_reduce(4000000, 2, Placement::kIntraNode).quality == Quality::kEstimated);
}

TEST_CASE("a link between two nodes overrides its level") {
  test::World world = one_operator({1, 16});
  world.cluster.nodes.push_back({"n1", "", 1, 0, 0});
  Link level;
  level.level = "inter_node";
  level.bandwidth_bytes_per_s = 1e9;
  Link direct;
  direct.between = {"n1", "n0"};
  direct.bandwidth_bytes_per_s = 1e6;
  world.cluster.links = {level, direct};
  const CostTable table = world.table();
  CHECK(table.tables().links.point_to_point(1000, 0, 1).mean == Approx(1));
}

TEST_CASE("a slowdown below one is taken as none") {
  test::World world = one_operator({1, 16});
  world.costs.push_back(test::exact_cost(test::link_key(CostKind::kOverlapComputation, 10, 2), 900000));
  world.costs.push_back(test::exact_cost(test::link_key(CostKind::kOverlapCommunication, 10, 2), 1300000));
  const CostTable table = world.table();
  const OverlapSubject all_reduce{"all_reduce", 10, 2, Placement::kIntraNode};
  const Slowdowns slowdowns = table.tables().overlaps.beside(all_reduce, ComputationKind::kUnknown);
  CHECK(slowdowns.computation.factor == 1.0);
  CHECK(slowdowns.communication.factor == Approx(1.3));
}

// What training shows of the same collective, each with one more thing said; worth nothing like what was measured.
void add_particular(CostKey key, std::int64_t value, std::vector<Cost>& costs) {
  const auto add = [&](const auto& say) {
    CostKey said = key;
    say(said);
    costs.push_back(test::exact_cost(said, value));
    costs.back().source = parse_cost_source("training ranks-clock");
  };
  add([](CostKey& said) { said.algorithm = "ring"; });
  add([](CostKey& said) { said.protocol = "ll128"; });
  add([](CostKey& said) { said.channels = 2; });
  add([](CostKey& said) { said.kernel_class = "gemm"; });
}

TEST_CASE("a few transfers seen in training change no measured link, and price a size that no benchmark measured") {
  test::World world = one_operator({1, 16});
  world.cluster.nodes[0].devices = 2;
  const CostKey all_reduce = test::link_key(CostKind::kCollective, 1000, 2);
  const CostKey computation = test::link_key(CostKind::kOverlapComputation, 1000, 2);
  const CostKey communication = test::link_key(CostKind::kOverlapCommunication, 1000, 2);
  world.costs.push_back(test::exact_cost(all_reduce, 3000000));
  world.costs.push_back(test::exact_cost(computation, 1200000));
  world.costs.push_back(test::exact_cost(communication, 1300000));
  for (CostKey key : {all_reduce, computation, communication}) {
    add_particular(key, 9000000, world.costs);
    key.bytes = 1 << 20;  // larger than what was measured
    add_particular(key, 9000000, world.costs);
  }
  const CostTable table = world.table();
  const LinkCosts& links = table.tables().links;
  CHECK(links.all_reduce(1000, 2, Placement::kIntraNode).mean == Approx(3));
  CHECK(links.all_reduce(1 << 20, 2, Placement::kIntraNode).mean == Approx(9).epsilon(0.01));
  CHECK(links.all_reduce(1 << 19, 2, Placement::kIntraNode).quality == Quality::kMeasured);  // between the two
  const OverlapSubject of{"all_reduce", 1000, 2, Placement::kIntraNode};
  const Slowdowns slowdowns = table.tables().overlaps.beside(of, ComputationKind::kProducts);
  CHECK(slowdowns.computation.factor == Approx(1.2));
  CHECK(slowdowns.communication.factor == Approx(1.3));
}

TEST_CASE("what training shows of single algorithms is no collective of the aceso model's profile") {
  CostKey gather;
  gather.kind = CostKind::kCollective;
  gather.subject = "all_gather";
  gather.bytes = 4 << 20;
  gather.group_size = 4;
  gather.placement = "intra_node";
  std::vector<Cost> costs{test::exact_cost(gather, 2000000)};
  add_particular(gather, 9000000, costs);
  const aceso::Profile profile = aceso::profile_from_costs(costs, "float32");
  CHECK(profile.collective(aceso::Primitive::kAllGather, 4, 4) == Approx(2000));
}

TEST_CASE("a price names what each cost was measured by, whatever else its key says") {
  test::World world = one_operator({2, 8});
  world.model.operators[0].parameter_bytes = 4;
  std::vector<Cost> backward_reserves;
  for (Cost& cost : world.costs) {
    cost.key.group_size = 1;  // as a benchmark on one rank may write it
    if (cost.key.kind == CostKind::kOptimizerStep) cost.key.tp = 2;
    cost.source = parse_cost_source("benchmark");
    if (cost.key.kind != CostKind::kOperatorWorkingBytes) continue;
    cost.key.kind = CostKind::kOperatorForwardReserveBytes;
    backward_reserves.push_back(cost);
    backward_reserves.back().key.kind = CostKind::kOperatorBackwardReserveBytes;
  }
  world.costs.insert(world.costs.end(), backward_reserves.begin(), backward_reserves.end());
  world.costs.push_back(test::exact_cost(test::operator_key(CostKind::kOperatorForward, "op", 4), 1));
  world.costs.back().key.dtype = "float16";  // of no use to this model
  const std::string benchmark = describe(parse_cost_source("benchmark"));
  const auto lines = [&](std::int32_t microbatch) {
    const NativeCostModel cost_model(world.table());
    return cost_model.rests_on(test::make_plan(world.model, microbatch, {1}, {1}));
  };
  const std::string forward = "operator_forward op float32 samples=";
  CHECK_THAT(lines(2), Catch::VectorContains(forward + "2 tp=1 default: " + benchmark));
  CHECK_THAT(lines(4), Catch::VectorContains(forward + "4 tp=1 default: between sizes 2 and 8: " + benchmark));
  REQUIRE(lines(2).size() == 6);
  for (const std::string& line : lines(2)) CHECK_THAT(line, Catch::EndsWith(": " + benchmark));
}

}  // namespace
}  // namespace trimtab::tuner
