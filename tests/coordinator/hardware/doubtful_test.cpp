// Which costs a change has made doubtful, in which order they are measured again, and what measurements make of prices.

#include "tuning/hardware/doubtful.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "../near_world.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/hardware/measured_again.hpp"
#include "tuning/search/planning.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace trimtab::test;

namespace {

constexpr Nanoseconds kPause = std::chrono::seconds(2);

Cluster nodes_of(int nodes) {
  Cluster cluster;
  for (int i = 0; i < nodes; ++i) cluster.nodes.push_back({"n" + std::to_string(i), "f", 1, 1 << 30, 0});
  cluster.links.push_back({"inter_node", std::nullopt, 1e9, 20});
  return cluster;
}

Plan replicated(int devices) {
  Plan plan;
  plan.model = "small";
  plan.global_batch = 64;
  plan.microbatch = 16;
  Stage stage;
  for (int i = 0; i < devices; ++i) stage.devices.push_back(i);
  Segment segment;
  segment.operators = {0, 4};
  segment.dp = devices;
  stage.segments = {segment};
  plan.stages = {stage};
  return plan;
}

SearchTask task_on(int nodes) {
  SearchTask task;
  task.model_json = to_json(near_model());
  task.cluster = nodes_of(nodes);
  task.costs = near_costs(tuner::needed_costs(near_model(), nodes_of(nodes), Knobs{}, {}));
  task.incumbent = PlanText(replicated(nodes));
  return task;
}

Doubtful doubtful(const SearchTask& task, Nanoseconds pause = kPause) {
  const auto found = doubtful_costs(task, pause);
  REQUIRE(found.ok());
  return *found;
}

double now_of(const DoubtfulCost& cost, const LinkChange& change) {
  return changed_ns(cost.key, cost.before_ns, change);
}

// As if each of two ranks had measured the items, of which costs take what `ns` says.
template <typename Ns>
Remeasured measured(const Doubtful& asked, const std::map<std::int32_t, double>& slow, const Ns& ns) {
  std::map<std::int32_t, RankMeasured> ranks;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    RankMeasured told{1, 700, std::chrono::milliseconds(300 + rank), {}, ""};
    for (std::size_t i = 0; i < asked.items.size(); ++i) {
      RankMeasured::Item item{static_cast<std::uint32_t>(i), {}, ""};
      for (const DoubtfulCost& cost : asked.items[i].costs) item.costs.push_back({std::llround(ns(rank, cost))});
      told.items.push_back(std::move(item));
    }
    ranks[rank] = std::move(told);
  }
  return measured_by(asked, ranks, slow);
}

}  // namespace

TEST_CASE("of a level that has changed the known messages over it are doubtful, and nothing else", "[doubtful]") {
  SearchTask task = task_on(2);
  CHECK(doubtful(task).costs == 0);
  task.link_changes.levels["intra_node"] = {0.5, 0};
  CHECK(doubtful(task).costs == 0);
  task.link_changes.levels["inter_node"] = {0.5, 0};
  const Doubtful found = doubtful(task);
  const auto messages = std::ranges::count_if(task.costs, [](const Cost& one) {
    return one.key.kind == CostKind::kCollective || one.key.kind == CostKind::kPointToPoint;
  });
  CHECK(found.costs == messages);
  REQUIRE(std::cmp_equal(found.items.size(), messages));
  for (const DoubtfulItem& item : found.items) {
    CHECK(item.costs.front().key.placement == "inter_node");
    CHECK(item.costs.front().expected_ns == Approx(2 * item.costs.front().before_ns));
    CHECK(item.ranks.empty());
  }
  // Of two that have changed by as much the one that the incumbent runs comes first; it has no stages.
  CHECK(found.items.front().costs.front().key.subject == "all_reduce");
}

TEST_CASE("what does not fit into the pause is left out, the least weighty first", "[doubtful]") {
  SearchTask task = task_on(2);
  task.link_changes.levels["inter_node"] = {0.01, 0};
  const Doubtful all = doubtful(task);
  const Doubtful few = doubtful(task, std::chrono::milliseconds(100));
  CHECK(few.costs == all.costs);
  CHECK(few.items.size() < all.items.size());
  REQUIRE_FALSE(few.items.empty());
  const auto asked = nlohmann::json::parse(few.request_json);
  CHECK(asked.at("bound_ms") == 100);
  REQUIRE(asked.at("items").size() == few.items.size());
  double ms = 0;
  for (const auto& item : asked.at("items")) {
    CHECK(item.at("placement") == "inter_node");
    ms += item.at("expected_ns").get<double>() * 1e-6;
  }
  CHECK(ms < 100);
  CHECK(doubtful(task, std::chrono::milliseconds(1)).items.empty());
}

TEST_CASE("the link of two nodes is measured by a rank of each, and what goes over it among others is not",
          "[doubtful]") {
  SearchTask task = task_on(4);
  task.link_changes.pairs[node_pair("n1", "n2")] = {0.2, 0};
  const Doubtful found = doubtful(task);
  REQUIRE_FALSE(found.items.empty());
  CHECK(std::cmp_greater(found.costs, found.items.size()));
  for (const DoubtfulItem& item : found.items) {
    CHECK(item.ranks == std::vector<std::int32_t>{1, 2});
    CHECK(item.pair == node_pair("n1", "n2"));
  }
  CHECK(nlohmann::json::parse(found.request_json).at("items").at(0).at("ranks") == nlohmann::json({1, 2}));
}

TEST_CASE("links that counters doubt are measured, those alone, whatever probes say of them", "[doubtful]") {
  SearchTask task = task_on(4);
  const NodePair pair = node_pair("n1", "n2");
  task.doubted[pair] = 2;
  task.link_changes.pairs[pair] = {};  // as its level
  const Doubtful found = doubtful(task);
  REQUIRE_FALSE(found.items.empty());
  for (const DoubtfulItem& item : found.items) {
    CHECK(item.ranks == std::vector<std::int32_t>{1, 2});
    CHECK(item.costs.front().expected_ns == Approx(item.costs.front().before_ns));
  }
  const Remeasured again =
      measured(found, {}, [](std::int32_t, const DoubtfulCost& cost) { return 3 * cost.before_ns; });
  const LinkChanges changes = as_measured(task.link_changes, again.costs);
  CHECK(changes.pairs.at(pair).share == Approx(1.0 / 3).epsilon(1e-3));
  CHECK(changes.levels.empty());
  task.doubted.clear();
  CHECK(doubtful(task).items.empty());  // nothing says that it has changed
}

TEST_CASE("of several devices of a node the one measures whose link it is", "[doubtful]") {
  SearchTask task = task_on(2);
  Cluster cluster = nodes_of(2);
  for (Node& node : cluster.nodes) node.devices = 4;
  task.cluster = cluster;
  task.costs = near_costs(tuner::needed_costs(near_model(), cluster, Knobs{}, {}));
  task.incumbent = PlanText(replicated(8));
  for (const auto& [pair, ranks] : {std::pair(node_pair("n1", "n1"), std::vector<std::int32_t>{4, 6}),
                                    std::pair(node_pair("n0", "n1"), std::vector<std::int32_t>{0, 6})}) {
    SearchTask one = task;
    one.doubted[pair] = 6;
    one.link_changes.pairs[pair] = {};
    const Doubtful found = doubtful(one);
    REQUIRE_FALSE(found.items.empty());
    for (const DoubtfulItem& item : found.items) CHECK(item.ranks == ranks);
  }
}

TEST_CASE("of a slow device the operators are measured that the incumbent runs there, the longest first",
          "[doubtful]") {
  SearchTask task = task_on(2);
  task.slow_devices[1] = 0.5;
  const Doubtful found = doubtful(task);
  REQUIRE(found.items.size() == 4);
  for (const DoubtfulItem& item : found.items) {
    REQUIRE(item.costs.size() == 2);
    CHECK(item.device == 1);
    CHECK(item.costs[0].key.samples == 8);  // of a microbatch of 16 on each of two replicas
    CHECK(item.costs[0].expected_ns == Approx(2 * item.costs[0].before_ns));
  }
}

TEST_CASE("what was measured takes the place of what was known, and is averaged with nothing", "[doubtful]") {
  SearchTask task = task_on(2);
  task.link_changes.levels["inter_node"] = {0.5, 0};
  const Remeasured again = measured(doubtful(task), {}, [](std::int32_t, const DoubtfulCost& cost) {
    return 3 * cost.before_ns;  // and not twice, as probes had it
  });
  CHECK(again.step == 700);
  CHECK(again.took_ms == Approx(301));
  CHECK(again.left.empty());
  std::vector<Cost> costs = task.costs;
  Cost trained = costs.back();
  trained.key = again.costs.front().key;
  trained.source.kind = CostSource::Kind::kTraining;
  costs.push_back(trained);
  const std::size_t known = costs.size();
  supersede(again.costs, costs);
  CHECK(costs.size() == known - 1);
  for (const MeasuredCost& one : again.costs) {
    const auto of = std::ranges::count(costs, one.key, &Cost::key);
    REQUIRE(of == 1);
    CHECK(std::ranges::find(costs, one.key, &Cost::key)->statistics.mean() == Approx(3 * one.before_ns));
  }
  const LinkChanges changes = as_measured(task.link_changes, again.costs);
  CHECK(changes.levels.at("inter_node").share == Approx(1.0 / 3).epsilon(1e-4));
  CHECK(changes.levels.at("inter_node").message_ms == Approx(0).margin(1e-3));
}

TEST_CASE("bandwidth and latency of a link are told apart by messages of several sizes", "[doubtful]") {
  const LinkChange truth{0.25, 6};
  SearchTask task = task_on(4);
  const NodePair pair = node_pair("n0", "n3");
  task.link_changes.pairs[pair] = {0.4, 3};
  const Remeasured again =
      measured(doubtful(task), {}, [&](std::int32_t, const DoubtfulCost& cost) { return now_of(cost, truth); });
  const LinkChange change = as_measured(task.link_changes, again.costs).pairs.at(pair);
  CHECK(change.share == Approx(truth.share).epsilon(1e-3));
  CHECK(change.message_ms == Approx(truth.message_ms).epsilon(1e-3));
  std::vector<MeasuredCost> one = {again.costs.front()};
  const LinkChange of_one = as_measured(task.link_changes, one).pairs.at(pair);
  CHECK(now_of({one[0].key, one[0].before_ns, 0}, of_one) == Approx(one[0].now_ns()).epsilon(1e-6));
  CHECK(as_measured(task.link_changes, {}).pairs.at(pair) == LinkChange{0.4, 3});
}

TEST_CASE("a device is as fast as its operators are, whatever was probed, and is seen beside the others",
          "[doubtful]") {
  SearchTask task = task_on(2);
  task.slow_devices[1] = 0.5;
  const double truth = GENERATE(0.7, 1.0);
  const Remeasured again =
      measured(doubtful(task), task.slow_devices,
               [&](std::int32_t rank, const DoubtfulCost& cost) { return cost.before_ns / (rank == 1 ? truth : 1); });
  CHECK(as_measured(task.slow_devices, again.costs).at(1) == Approx(truth).epsilon(1e-4));
  CHECK(again.costs.front().others_ns == Approx(again.costs.front().before_ns).epsilon(1e-4));
  CHECK(describe(again).find("on the others") != std::string::npos);
}

TEST_CASE("of groups beside each other the slowest counts where it is clearly slower, else all", "[doubtful]") {
  SearchTask task = task_on(2);
  task.link_changes.levels["inter_node"] = {0.5, 0};
  const Doubtful asked = doubtful(task);
  const auto of_times = [&](double last) {
    std::map<std::int32_t, RankMeasured> ranks;
    for (std::int32_t rank = 0; rank < 6; ++rank) {
      const auto ns = std::llround(1e6 * (rank >= 4 ? last : 1));
      ranks[rank] = {1, 9, Nanoseconds(5), {{0, {{ns, ns}}, ""}}, ""};
    }
    return measured_by(asked, ranks, {}).costs.at(0);
  };
  CHECK(of_times(4).now_ns() == Approx(4e6));
  CHECK(of_times(1.2).now_ns() == Approx(1e6 * (4 + 2 * 1.2) / 6));
  CHECK(of_times(1.2).values.size() == 12);
}

TEST_CASE("what ranks tell that cannot be is no value", "[doubtful]") {
  SearchTask task = task_on(2);
  task.link_changes.levels["inter_node"] = {0.5, 0};
  const Doubtful asked = doubtful(task);
  RankMeasured told{1, 9, Nanoseconds(5), {}, ""};
  told.items.push_back({0, {{0, -4}}, ""});
  told.items.push_back({1, {}, "no such group"});
  told.items.push_back({4'000'000, {{7}}, ""});
  told.items.push_back({2, {{}, {}, {5}}, ""});
  const Remeasured again = measured_by(asked, {{0, told}}, {});
  CHECK(again.costs.empty());
  CHECK(again.left == "no such group");
}
