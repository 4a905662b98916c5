#include "tuner/near_costs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "tuner/cost_choice.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/needed_costs.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// An embedding, pairs of attention and feedforward, a head, on two nodes of two devices.
test::World transformer() {
  std::vector<test::OperatorTruth> operators;
  const auto add = [&operators](const std::string& key, Bytes parameters) {
    test::OperatorTruth truth;
    truth.cost_key = key;
    truth.parameter_bytes = parameters;
    truth.output_bytes = 4096;
    truth.stored_bytes = 20000;
    operators.push_back(truth);
  };
  add("embedding", 400000);
  for (int i = 0; i < 4; ++i) {
    add("attention", 100000);
    add("feedforward", 200000);
  }
  add("head", 400000);
  test::World world = test::make_world(operators, 4, 32, {1});
  for (Operator& op : world.model.operators) op.forward_flops = op.parameter_bytes;
  world.cluster.nodes = {{"n0", "f", 2, 0, 0}, {"n1", "f", 2, 0, 0}};
  world.costs.clear();
  return world;
}

double usual_value(const CostKey& key) {
  const double weight = key.subject == "feedforward" ? 4 : key.subject == "attention" ? 3 : 1;
  switch (key.kind) {
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return 1'300'000;
    case CostKind::kProcessBytes:
      return 4'000'000;
    case CostKind::kOptimizerStep:
      return 300'000;
    case CostKind::kCollective:
    case CostKind::kPointToPoint:
      return 30'000 + static_cast<double>(key.bytes) / 4;
    default:
      return 100'000 + 1'000'000.0 * weight * key.samples;
  }
}

Cost measured(const CostKey& key, double value, const char* source = "benchmark alone host-clock") {
  Cost cost{key, {}, parse_cost_source(source)};
  for (const double off : {0.99, 1.0, 1.01}) cost.statistics.add(std::llround(value * off));
  return cost;
}

using Change = std::function<double(const CostKey&)>;

bool is_link(const CostKey& key) {
  return key.kind == CostKind::kCollective || key.kind == CostKind::kPointToPoint;
}
bool is_pass(const CostKey& key) {
  return (key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward) && !key.is_launch();
}

// Known hardware, and new one whose costs are others by `change`.
struct Bump {
  test::World world = transformer();
  std::vector<CostKey> needed;
  NearHardware near{"0123456789abcdef", 0.15, {}};
  Change change;

  explicit Bump(Change of, bool launches = false)
      : needed(needed_costs(world.model, world.cluster, Knobs{}, {}, launches)), change(std::move(of)) {
    for (const CostKey& key : needed) near.costs.push_back(measured(key, usual_value(key)));
  }
  [[nodiscard]] std::vector<Cost> measure(const std::vector<CostKey>& keys) const {
    std::vector<Cost> costs;
    for (const CostKey& key : keys) costs.push_back(measured(key, usual_value(key) * change(key)));
    return costs;
  }
  [[nodiscard]] std::vector<NearFinding> probe() const {
    return compare_with_near(needed, measure(near_probes(world.model, needed, near)), near);
  }
  [[nodiscard]] NearFinding found(NearClass of) const {
    const auto all = probe();
    const auto one = std::ranges::find(all, of, &NearFinding::of);
    REQUIRE(one != all.end());
    return *one;
  }
};

double unchanged(const CostKey&) {
  return 1;
}

// Measurements of the benchmark: what one fills counts once.
std::size_t items(const std::vector<CostKey>& keys, const Model& model) {
  const std::string json = benchmark_requests_json(keys, model);
  std::size_t found = 0;
  for (std::size_t at = json.find("\"kind\""); at != std::string::npos; at = json.find("\"kind\"", at + 1)) ++found;
  return found;
}

TEST_CASE("probes are few, quick, and of every class that is needed") {
  const Bump bump(unchanged);
  const std::vector<CostKey> probes = near_probes(bump.world.model, bump.needed, bump.near);
  CHECK(std::ranges::is_sorted(probes));
  CHECK(std::ranges::includes(bump.needed, probes));
  const std::size_t all = items(bump.needed, bump.world.model);
  const std::size_t few = items(probes, bump.world.model);
  CHECK(3 * few <= all);
  double time = 0;
  double whole = 0;
  std::set<std::string> operators;
  for (const CostKey& key : bump.needed) {
    if (unit_of(key.kind) == "ns") whole += usual_value(key);
  }
  for (const CostKey& key : probes) {
    if (unit_of(key.kind) == "ns") time += usual_value(key);
    if (is_pass(key)) operators.insert(key.subject);
  }
  CHECK(time < whole / 10);
  CHECK(operators.contains("feedforward"));  // the heaviest
  CHECK(operators.size() >= 3);
  for (const CostKind kind : {CostKind::kOptimizerStep, CostKind::kProcessBytes, CostKind::kOverlapComputation}) {
    CHECK(std::ranges::count(probes, kind, &CostKey::kind) == 1);
  }
  for (const char* const placement : {"intra_node", "inter_node"}) {
    CHECK(std::ranges::count_if(probes, [&](const CostKey& key) {
            return key.kind == CostKind::kCollective && key.placement == placement;
          }) == 2);
  }
}

TEST_CASE("near hardware that knows little has no probes") {
  Bump bump(unchanged);
  std::erase_if(bump.near.costs, [](const Cost& cost) { return !is_pass(cost.key) || cost.key.samples > 1; });
  REQUIRE_FALSE(bump.near.costs.empty());
  CHECK(near_probes(bump.world.model, bump.needed, bump.near).empty());
  bump.near.costs.clear();
  CHECK(near_probes(bump.world.model, bump.needed, bump.near).empty());
}

TEST_CASE("probes that find what was known confirm it, and make it surer than the distance does") {
  const Bump bump(unchanged);
  const auto findings = bump.probe();
  CHECK(findings.size() == 5);  // no host copies are needed
  for (const NearFinding& one : findings) {
    INFO(describe(one));
    CHECK(one.verdict == NearVerdict::kConfirmed);
    CHECK(one.factor == 1);
    CHECK(one.doubt > 0.01);
    CHECK(one.doubt < bump.near.doubt / 2);
  }
  CHECK(describe(bump.found(NearClass::kComputation)).starts_with("computation as it was (± "));
}

TEST_CASE("what changed together is scaled, each class by itself") {
  const Bump bump([](const CostKey& key) { return is_pass(key) ? 0.92 : is_link(key) ? 1.25 : 1.0; });
  const NearFinding computation = bump.found(NearClass::kComputation);
  CHECK(computation.verdict == NearVerdict::kScaled);
  CHECK(computation.factor == Approx(0.92).epsilon(0.02));
  const NearFinding links = bump.found(NearClass::kInterNode);
  CHECK(links.verdict == NearVerdict::kScaled);
  CHECK(links.factor == Approx(1.25).epsilon(0.03));
  CHECK(bump.found(NearClass::kMemory).verdict == NearVerdict::kConfirmed);
  CHECK(bump.found(NearClass::kOverlap).verdict == NearVerdict::kConfirmed);
}

TEST_CASE("launches are a class of their own, which the probes of passes measure, too") {
  const Bump bump([](const CostKey& key) { return key.is_launch() ? 0.8 : 1.0; }, true);
  const auto probes = near_probes(bump.world.model, bump.needed, bump.near);
  CHECK(
      items(probes, bump.world.model) ==
      items(near_probes(Bump(unchanged).world.model, Bump(unchanged).needed, Bump(unchanged).near), bump.world.model));
  const NearFinding launches = bump.found(NearClass::kLaunches);
  CHECK(launches.verdict == NearVerdict::kScaled);
  CHECK(launches.factor == Approx(0.8).epsilon(0.02));
  CHECK(launches.probes >= 5);
  CHECK(launches.doubt > 0.01);
  CHECK(bump.found(NearClass::kComputation).verdict == NearVerdict::kConfirmed);
  const auto taken = take_over(bump.near, bump.probe());
  CHECK(taken.size() + 1 == bump.needed.size());
  for (const Cost& cost : taken) {
    CHECK(cost.source.times_ppm == Approx(cost.key.is_launch() ? 800'000 : 1'000'000).epsilon(0.02));
  }
  CHECK(needed_costs(bump.world.model, bump.world.cluster, Knobs{}, taken, true).size() == 1);  // a process
}

TEST_CASE("hardware that is known without launches lends none, and its gaps are compared with no covered pass") {
  Bump bump(unchanged, true);
  std::erase_if(bump.near.costs, [](const Cost& cost) { return cost.key.is_launch(); });
  const auto probes = near_probes(bump.world.model, bump.needed, bump.near);
  CHECK(std::ranges::any_of(probes, &CostKey::is_launch));
  std::vector<Cost> here = bump.measure(probes);
  CHECK(compare_with_near(bump.needed, here, bump.near).size() == 5);
  for (Cost& cost : here) cost.source.covered = is_pass(cost.key) || cost.key.kind == CostKind::kOptimizerStep;
  for (const NearFinding& one : compare_with_near(bump.needed, here, bump.near)) {
    CHECK(one.of != NearClass::kLaunches);
    CHECK((one.verdict == NearVerdict::kUnprobed) == (one.of == NearClass::kComputation));
  }
}

TEST_CASE("what changed in no common way is refuted, and so are slowdowns that changed at all") {
  const Bump bump([](const CostKey& key) {
    if (key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication) return 1.2;
    return is_pass(key) && key.subject == "feedforward" ? 1.5 : 1.0;
  });
  const NearFinding computation = bump.found(NearClass::kComputation);
  CHECK(computation.verdict == NearVerdict::kRefuted);
  CHECK(computation.doubt >= bump.near.doubt);
  CHECK_FALSE(computation.holds());
  CHECK(bump.found(NearClass::kOverlap).verdict == NearVerdict::kRefuted);
  CHECK(bump.found(NearClass::kIntraNode).verdict == NearVerdict::kConfirmed);
  // Twice as slow is other hardware.
  const Bump slow([](const CostKey& key) { return is_link(key) ? 2.0 : 1.0; });
  CHECK(slow.found(NearClass::kIntraNode).verdict == NearVerdict::kRefuted);
}

TEST_CASE("a class of which too little could be measured is measured whole") {
  const Bump bump(unchanged);
  std::vector<Cost> here = bump.measure(near_probes(bump.world.model, bump.needed, bump.near));
  std::erase_if(here, [](const Cost& cost) { return is_link(cost.key); });
  const auto findings = compare_with_near(bump.needed, here, bump.near);
  std::vector<Cost> known = here;
  std::ranges::move(take_over_confirmed(bump.near, findings), std::back_inserter(known));
  const auto left = needed_costs(bump.world.model, bump.world.cluster, Knobs{}, known);
  CHECK_FALSE(left.empty());
  CHECK(std::ranges::all_of(left, is_link));
  // Nothing else stands for them, so they price plans all the same, as unsure as the distance makes them.
  const auto taken = take_over(bump.near, findings);
  const auto one = std::ranges::find_if(taken, [](const Cost& cost) { return is_link(cost.key); });
  REQUIRE(one != taken.end());
  CHECK(one->source.doubt_ppm == 150'000);
}

TEST_CASE("noise alone refutes nothing, and leaves more doubt") {
  Bump bump(unchanged);
  for (Cost& cost : bump.near.costs) {
    if (is_pass(cost.key)) cost.source.disturbed = true;  // 10 %
  }
  bump.change = [&](const CostKey& key) {
    return !is_pass(key)                                                               ? 1.0
           : (key.samples + (key.kind == CostKind::kOperatorForward ? 1 : 0)) % 2 == 0 ? 1.07
                                                                                       : 0.93;
  };
  const NearFinding noisy = bump.found(NearClass::kComputation);
  CHECK(noisy.verdict == NearVerdict::kConfirmed);
  CHECK(noisy.doubt > Bump(unchanged).found(NearClass::kComputation).doubt);
}

TEST_CASE("taken over are benchmarks alone, never the memory of a process, and they say from where") {
  Bump bump(unchanged);
  bump.near.costs.push_back(measured(bump.needed.front(), 1, "training alone device-clock"));
  CostKey seen = bump.needed.front();
  seen.samples = 77;
  bump.near.costs.push_back(measured(seen, 1000, "training alone device-clock"));
  const auto taken = take_over(bump.near, bump.probe());
  CHECK(taken.size() + 1 == bump.needed.size());
  for (const Cost& cost : taken) {
    CHECK(cost.source.kind == CostSource::Kind::kTakenOver);
    CHECK(cost.source.name == "0123456789abcdef");
    CHECK(cost.key.kind != CostKind::kProcessBytes);
    CHECK(cost.key.samples != 77);
  }
}

TEST_CASE("what is measured here goes before what is taken over, which is priced with its factor and its doubt") {
  const Bump bump([](const CostKey& key) { return is_pass(key) ? 1.10 : 1.0; });
  const auto probes = near_probes(bump.world.model, bump.needed, bump.near);
  std::vector<Cost> known = bump.measure(probes);
  std::ranges::move(take_over(bump.near, bump.probe()), std::back_inserter(known));
  CHECK(needed_costs(bump.world.model, bump.world.cluster, Knobs{}, known).empty());
  const std::set<CostKey> here(probes.begin(), probes.end());
  int passes = 0;
  for (const ChosenCost& cost : choose_costs(known)) {
    if (!is_pass(cost.key)) continue;
    const bool is_probe = std::ranges::any_of(here, [&](const CostKey& key) { return canonical(key) == cost.key; });
    CHECK((cost.source.kind == CostSource::Kind::kBenchmark) == is_probe);
    CHECK(cost.factor * cost.statistics.mean() == Approx(1.10 * usual_value(cost.key)).epsilon(0.02));
    CHECK((cost.log_sigma > 0.01) == !is_probe);
    passes += is_probe ? 0 : 1;
    if (!is_probe) CHECK(rests_on(cost).starts_with("taken over from 0123456789abcdef, times 1."));
  }
  CHECK(passes > 10);
}

TEST_CASE("a plan that is priced with what was taken over is near the truth, and its interval holds it") {
  const Bump bump([](const CostKey& key) { return is_pass(key) ? 1.10 : is_link(key) ? 0.9 : 1.0; });
  std::vector<Cost> known = bump.measure(near_probes(bump.world.model, bump.needed, bump.near));
  std::ranges::move(take_over(bump.near, bump.probe()), std::back_inserter(known));
  const auto price = [&](const std::vector<Cost>& costs) {
    const auto table = CostTable::build(bump.world.model, bump.world.cluster, costs);
    REQUIRE(table.ok());
    return NativeCostModel(*table).evaluate(test::make_plan(bump.world.model, 8, {5, 10}, {2, 2}));
  };
  const Prediction truth = price(bump.measure(bump.needed));
  const Prediction taken = price(known);
  const Prediction old = price(bump.near.costs);
  REQUIRE(taken.priced());
  CHECK(taken.iteration_ms == Approx(truth.iteration_ms).epsilon(0.01));
  CHECK(old.iteration_ms < 0.95 * truth.iteration_ms);
  CHECK(taken.interval_low_ms < truth.iteration_ms);
  CHECK(taken.interval_high_ms > truth.iteration_ms);
}

}  // namespace
}  // namespace trimtab::tuner
