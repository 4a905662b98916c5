// Links that the cluster gives for two nodes: only what goes over them costs more.

#include <catch2/catch.hpp>

#include "native/costs/link_costs.hpp"
#include "native/costs/tables.hpp"
#include "pricing/evaluator.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/search.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

Link link_between(const std::string& a, const std::string& b, double share, double added_latency_us = 0) {
  Link link;
  link.between = {a, b};
  link.share = share;
  link.added_latency_us = added_latency_us;
  return link;
}

// Eight equal operators with parameters and large outputs, on `nodes` nodes of `each` devices; links measured.
test::World nodes_world(int nodes, std::int32_t each, const std::vector<Link>& links = {}) {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.parameter_bytes = 400'000;
  truth.output_bytes = 20'000;
  test::World world = test::make_world(std::vector<test::OperatorTruth>(8, truth), nodes * each, 16, {1, 2, 4, 8, 16});
  test::add_links(world, 0, 10'000'000);  // 1 ms for 100 bytes
  const std::vector<Cost> costs = world.costs;
  for (Cost cost : costs) {
    if (cost.key.placement != "intra_node") continue;
    cost.key.placement = "inter_node";
    world.costs.push_back(cost);
  }
  Node node = world.cluster.nodes[0];
  node.devices = each;
  world.cluster.nodes.clear();
  for (int n = 0; n < nodes; ++n) {
    node.name = "n" + std::to_string(n);
    world.cluster.nodes.push_back(node);
  }
  world.cluster.links = links;
  return world;
}

double step_ms(const test::World& world, const Plan& plan) {
  const Prediction prediction = NativeCostModel(world.table(true)).evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  return prediction.iteration_ms;
}

Plan two_stages(const test::World& world) {
  return test::make_plan(world.model, 4, {4, 8}, {4, 4});
}

TEST_CASE("a measured transfer over a slower link takes as much longer, and over every other what was measured") {
  const CostTable table = nodes_world(3, 1, {link_between("n1", "n0", 0.25, 500)}).table(true);
  const LinkCosts& links = table.tables().links;
  CHECK(links.point_to_point(1000, 1, 2).mean == Approx(10));
  CHECK(links.point_to_point(1000, 0, 2).mean == Approx(10));
  CHECK(links.point_to_point(1000, 0, 1).mean == Approx(40.5));
  CHECK(links.point_to_point(1000, 1, 0).mean == Approx(40.5));
  CHECK(links.point_to_point(1000, 0, 1).quality == Quality::kMeasured);
  CHECK(links.point_to_point(1000, 0, 0).mean == Approx(10));
}

TEST_CASE("a link's bandwidth beside its level's is its share of what was measured") {
  test::World world = nodes_world(3, 1);
  Link level;
  level.level = "inter_node";
  level.bandwidth_bytes_per_s = 1e9;
  Link direct = link_between("n0", "n1", 0);
  direct.bandwidth_bytes_per_s = 2e8;
  direct.latency_us = 1000;
  world.cluster.links = {level, direct};
  const CostTable table = world.table(true);
  CHECK(table.tables().links.point_to_point(1000, 0, 1).mean == Approx(51));
  CHECK(table.tables().links.point_to_point(1000, 1, 2).mean == Approx(10));
  // The level unknown, what was measured stands for it: 1,000,000 bytes in 10 s.
  world.cluster.links = {direct};
  world.cluster.links[0].bandwidth_bytes_per_s = 2e4;
  world.cluster.links[0].latency_us = 0;
  CHECK(world.table(true).tables().links.point_to_point(1000, 0, 1).mean == Approx(50));
}

TEST_CASE("a collective is as slow as the worst link among the nodes of its group, and no other") {
  const CostTable table =
      nodes_world(3, 1, {link_between("n0", "n1", 0.25), link_between("n1", "n2", 1, 2000)}).table(true);
  const LinkCosts& links = table.tables().links;
  const auto ms = [&](std::vector<std::int32_t> nodes) {
    const auto count = static_cast<std::int32_t>(nodes.size());
    return links.all_reduce(1000, count, links.routes().among(nodes)).mean;
  };
  CHECK(ms({0, 2}) == Approx(10));
  CHECK(ms({1, 0}) == Approx(40));
  CHECK(ms({2, 1}) == Approx(10 + 2 * 2.0));
  CHECK(ms({2, 0, 1}) == Approx(40 + 4 * 2.0));  // a ring of three
  std::vector<std::int32_t> one{1, 1};
  CHECK(links.routes().among(one).placement == Placement::kIntraNode);
}

TEST_CASE("links between nodes alone price their groups where the level is not known") {
  test::World world = nodes_world(2, 1);
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.placement == "inter_node"; });
  Link direct = link_between("n0", "n1", 0);
  direct.bandwidth_bytes_per_s = 1e6;
  world.cluster.links = {direct};
  const CostTable table = world.table(false);
  std::vector<std::int32_t> both{0, 1};
  const Route route = table.tables().links.routes().among(both);
  CHECK(table.tables().links.all_reduce(1000, 2, route).mean == Approx(1));
  CHECK(table.tables().links.point_to_point(2000, 0, 1).mean == Approx(2));
  CHECK(table.tables().links.all_reduce(1000, 2, Placement::kInterNode).quality == Quality::kMissing);
}

TEST_CASE("a stage border away from the slow link costs nothing more, one over it does") {
  // Replica i sends to replica i: n0 to n2, n1 to n3.
  const double healthy = step_ms(nodes_world(4, 2), two_stages(nodes_world(4, 2)));
  const auto with = [](const std::string& a, const std::string& b) {
    const test::World world = nodes_world(4, 2, {link_between(a, b, 0.2)});
    return step_ms(world, two_stages(world));
  };
  CHECK(with("n1", "n2") == Approx(healthy));
  CHECK(with("n0", "n2") > 1.05 * healthy);
  CHECK(with("n1", "n3") > 1.05 * healthy);
}

TEST_CASE("a replica group that does not span the slow link synchronizes as before") {
  const Plan plan = two_stages(nodes_world(4, 2));
  const auto synchronizing = [&plan](const std::vector<Link>& links) {
    const Prediction prediction = NativeCostModel(nodes_world(4, 2, links).table(true)).evaluate(plan);
    return std::pair(prediction.stages[0].gradient_sync_ms, prediction.stages[1].gradient_sync_ms);
  };
  const auto healthy = synchronizing({});
  const auto first = synchronizing({link_between("n0", "n1", 0.2)});
  CHECK(first.first > 2 * healthy.first);
  CHECK(first.second == Approx(healthy.second));
  const auto none = synchronizing({link_between("n1", "n2", 0.2)});
  CHECK(none.first == Approx(healthy.first));
  CHECK(none.second == Approx(healthy.second));
}

TEST_CASE("an evaluator tells places apart by their links: its price is evaluate()'s, seeds 1 to 100") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const auto nodes = static_cast<int>(random.between(2, 5));
    std::vector<Link> links;
    for (int a = 0; a < nodes; ++a) {
      for (int b = a; b < nodes; ++b) {
        if (random.below(3) > 0) continue;
        links.push_back(link_between("n" + std::to_string(a), "n" + std::to_string(b), random.below(2) == 0 ? 0.2 : 0.5,
                                     random.below(2) == 0 ? 0 : 3000));
      }
    }
    test::World world = nodes_world(nodes, 2, links);
    world.model.tied_parameters.push_back({{0, 7}, 500});
    const NativeCostModel model(world.table(true));
    const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
    const auto evaluator = model.evaluator(space);
    for (int round = 0; round < 20; ++round) {
      Candidate candidate;
      candidate.microbatch = 8;
      std::int32_t left = nodes * 2;
      std::int32_t end = 0;
      while (left > 0) {
        std::int32_t devices = 1 << random.below(3);
        while (devices > left) devices /= 2;
        const bool last = devices == left || end == 7 || candidate.stages.size() == 6;
        end = last ? 8 : end + 1;
        candidate.stages.push_back(replicated_stage(end, devices));
        left = last ? 0 : left - devices;
      }
      const Score score = evaluator->price(candidate);
      if (!score.priced) continue;
      const Plan plan = evaluator->plan(candidate);
      INFO("seed " << seed << ", round " << round << "\n" << to_json(plan));
      REQUIRE(score.ms == Approx(model.evaluate(plan).iteration_ms));
    }
  }
}

TEST_CASE("a search of a cluster with one slow link finds a plan that avoids it") {
  const test::World healthy = nodes_world(4, 1);
  const test::World slow = nodes_world(4, 1, {link_between("n1", "n2", 0.1)});
  const auto best = [](const test::World& world) {
    SearchOptions options;
    options.strategy = "unified";
    options.max_evaluations = 20'000;
    const SearchOutcome outcome = search(NativeCostModel(world.table(true)), Knobs{}, options).value();
    REQUIRE_FALSE(outcome.result.plans.empty());
    return outcome.result.plans.front().plan;
  };
  // As if all links of the level were as slow: nothing is gained by leaving out one of them.
  test::World all = nodes_world(4, 1);
  for (Cost& cost : all.costs) {
    if (cost.key.placement != "inter_node") continue;
    const auto ns = static_cast<std::int64_t>(cost.statistics.mean() * 10);
    cost.statistics = {};
    cost.statistics.add(ns);
  }
  const double found = step_ms(slow, best(slow));
  CHECK(found <= step_ms(slow, best(healthy)));
  CHECK(found < 0.95 * step_ms(slow, best(all)));
}

}  // namespace
}  // namespace trimtab::tuner
