#include "tuner/cost_choice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "native/costs/link_costs.hpp"
#include "tuner/needed_costs.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using test::cost_from;
using test::kBenchmarkAlone;
using test::kTrainingAlone;

Statistics values(std::int64_t value, int count, double spread = 0) {
  Statistics statistics;
  for (int i = 0; i < count; ++i) {
    const double off = count > 1 ? spread * (2.0 * i / (count - 1) - 1) : 0;
    statistics.add(std::llround(static_cast<double>(value) * (1 + off)));
  }
  return statistics;
}

CostKey forward(std::int32_t samples, std::int32_t tp = 1) {
  CostKey key = test::operator_key(CostKind::kOperatorForward, "mlp", samples);
  key.tp = tp;
  return canonical(key);
}

CostKey all_reduce(std::int64_t bytes) {
  return test::link_key(CostKind::kCollective, bytes, 2);
}

const ChosenCost& of(const std::vector<ChosenCost>& chosen, const CostKey& key) {
  const auto found = std::find_if(chosen.begin(), chosen.end(), [&](const ChosenCost& one) { return one.key == key; });
  REQUIRE(found != chosen.end());
  return *found;
}

TEST_CASE("costs of different sources are never averaged, and the order says which counts") {
  const std::vector<const char*> order{"benchmark alone",
                                       "benchmark alone disturbed",
                                       "training alone device-clock",
                                       "training alone host-clock disturbed",
                                       "import:somebody",
                                       "taken-over:0123456789abcdef times=1000000 doubt=30000 alone host-clock",
                                       "training beside-communication host-clock",
                                       "passive",
                                       "estimated"};
  for (std::size_t first = 0; first < order.size(); ++first) {
    std::vector<Cost> costs;
    for (std::size_t i = order.size(); i-- > first;) {
      costs.push_back(cost_from(order[i], forward(1), values(1000, 3)));  // all the same: nothing to correct
    }
    const std::vector<ChosenCost> chosen = choose_costs(costs);
    REQUIRE(chosen.size() == 1);
    CHECK(to_text(chosen[0].source) == to_text(parse_cost_source(order[first])));
    CHECK(chosen[0].statistics.count() == 3);
    CHECK(one_cost_each(costs).size() == 1);
  }
}

TEST_CASE("a pass behind a cover goes before what an earlier release measured with its gaps") {
  for (const char* const earlier : {"benchmark alone", "benchmark alone device-clock", "benchmark alone host-clock"}) {
    const std::vector<Cost> costs{cost_from(earlier, forward(1), values(9000, 30)),
                                  cost_from("benchmark alone device-clock covered", forward(1), values(2000, 5))};
    const std::vector<ChosenCost> chosen = choose_costs(costs);
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].statistics.mean() == 2000);
  }
}

TEST_CASE("a training that waits does not change what a benchmark says of an all-reduce") {
  // As seen on a machine: 5.8 ms by the benchmark, 34.9 ms in training, waiting included.
  const std::vector<Cost> costs{
      cost_from(kBenchmarkAlone, all_reduce(8'400'000), values(5'800'000, 120, 0.05)),
      cost_from("training host-clock waiting", all_reduce(8'400'000), values(34'900'000, 262))};
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].statistics.mean() == Approx(5'800'000).epsilon(1e-3));
  CHECK(chosen[0].factor == 1);
}

TEST_CASE("an import that contains waiting or ran beside computation comes after others") {
  const auto from = [](const char* condition) { return "import:pytorch-profiler" + std::string(condition); };
  const Cost joined = cost_from(from(" alone ranks-clock").c_str(), all_reduce(1024), values(800, 20));
  const Cost beside = cost_from(from(" beside-computation ranks-clock").c_str(), all_reduce(1024), values(1100, 20));
  const Cost waiting = cost_from(from(" alone device-clock waiting").c_str(), all_reduce(1024), values(9000, 20));
  const Cost said = cost_from("import:nccl-tests", all_reduce(1024), values(700, 20));
  const Cost measured_here = cost_from(kBenchmarkAlone, all_reduce(1024), values(900, 20));
  const auto chosen = [](const std::vector<Cost>& costs) {
    const std::vector<ChosenCost> all = choose_costs(costs);
    REQUIRE(all.size() == 1);
    return all[0].statistics.mean();
  };
  CHECK(chosen({waiting, beside, joined}) == Approx(800).epsilon(1e-2));
  CHECK(chosen({waiting, beside}) == Approx(1100).epsilon(1e-2));
  CHECK(chosen({waiting, said}) == Approx(700).epsilon(1e-2));
  CHECK(chosen({waiting, joined, measured_here}) == Approx(900).epsilon(1e-2));
  CHECK_FALSE(is_known(choose_costs({waiting}).at(0)));
  CHECK(is_known(choose_costs({joined}).at(0)));
}

TEST_CASE("a link carries bytes whatever their type: the better source counts") {
  Cost typed = cost_from("import:nccl-tests", all_reduce(1024), values(700, 20));
  typed.key.dtype = "float32";
  const std::vector<ChosenCost> chosen =
      choose_costs({typed, cost_from(kBenchmarkAlone, all_reduce(1024), values(900, 20))});
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].source.kind == CostSource::Kind::kBenchmark);
}

TEST_CASE("training's values count at their size, and correct other sizes of the same thing") {
  const std::vector<Cost> costs{cost_from(kBenchmarkAlone, forward(1), values(1000, 10, 0.01)),
                                cost_from(kBenchmarkAlone, forward(4), values(4000, 10, 0.01)),
                                cost_from(kBenchmarkAlone, forward(8), values(8000, 10, 0.01)),
                                cost_from(kTrainingAlone, forward(4), values(4800, 50, 0.05))};
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  CHECK(of(chosen, forward(4)).source.kind == CostSource::Kind::kTraining);
  CHECK(of(chosen, forward(4)).factor == 1);
  const ChosenCost& one = of(chosen, forward(1));
  CHECK(one.source.kind == CostSource::Kind::kBenchmark);
  CHECK(one.factor == Approx(1.2).epsilon(0.03));
  CHECK(one.corrected_by == forward(4));
  CHECK(one.log_sigma > of(chosen, forward(8)).log_sigma);  // farther from what was seen
  CHECK(training_corrections(chosen).at("mlp") == Approx(1.2).epsilon(0.03));
  CHECK(rests_on(one).find("benchmark, alone, host's clock; times 1.") == 0);
}

// So many values, of which one in ten takes `longer` times as long.
Statistics skewed(std::int64_t value, int count, double longer) {
  Statistics statistics = values(value, count - count / 10, 0.01);
  statistics.merge(values(std::llround(static_cast<double>(value) * longer), count / 10));
  return statistics;
}

TEST_CASE("a pass that takes longer now and then counts by its mean, and what disturbed it by 5 % at most") {
  const auto price = [](const char* source, const CostKey& key, double longer) {
    return measured(choose_costs({cost_from(source, key, skewed(100'000, 1000, longer))}).at(0), 1).mean;
  };
  CHECK(price(kTrainingAlone, forward(1), 1.3) == Approx(103'000).epsilon(0.002));
  CHECK(price(kTrainingAlone, forward(1), 9) == Approx(105'000).epsilon(0.01));
  CHECK(price("training alone host-clock disturbed", forward(1), 1.3) == Approx(100'000).epsilon(0.01));
  CHECK(price("training alone ranks-clock", all_reduce(1'000'000), 1.3) == Approx(100'000).epsilon(0.01));
  // A benchmark that calm values made is corrected by as much.
  const std::vector<ChosenCost> chosen =
      choose_costs({cost_from(kBenchmarkAlone, forward(1), values(100'000, 20, 0.01)),
                    cost_from(kBenchmarkAlone, forward(4), values(400'000, 20, 0.01)),
                    cost_from(kTrainingAlone, forward(1), skewed(110'000, 1000, 1.3))});
  CHECK(of(chosen, forward(4)).factor == Approx(1.1 * 1.03).epsilon(0.01));
}

TEST_CASE("a ratio that is not clear corrects nothing") {
  const std::vector<Cost> near{cost_from(kBenchmarkAlone, forward(1), values(1000, 10, 0.05)),
                               cost_from(kBenchmarkAlone, forward(4), values(4000, 10, 0.05)),
                               cost_from(kTrainingAlone, forward(4), values(4080, 50, 0.05))};
  for (const ChosenCost& one : choose_costs(near)) {
    CHECK(one.source.kind == CostSource::Kind::kBenchmark);
    CHECK(one.factor == 1);
  }
  const std::vector<Cost> few{cost_from(kBenchmarkAlone, forward(1), values(1000, 10)),
                              cost_from(kTrainingAlone, forward(1), values(2000, static_cast<int>(kEnoughValues) - 1))};
  CHECK(choose_costs(few).at(0).source.kind == CostSource::Kind::kBenchmark);
}

TEST_CASE("what was measured on a disturbed machine gives way to any training on a quiet one") {
  const std::vector<Cost> costs{cost_from("benchmark alone disturbed", forward(1), values(1060, 10)),
                                cost_from("benchmark alone disturbed", forward(4), values(4240, 10)),
                                cost_from(kTrainingAlone, forward(4), values(4000, 50))};
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  CHECK(of(chosen, forward(4)).statistics.mean() == Approx(4000));
  CHECK(of(chosen, forward(1)).factor == Approx(1 / 1.06).epsilon(0.01));
  CHECK(measured(of(chosen, forward(1)), 1).error > 0.1 * 1000);  // and says so
}

// Values of a program beside which another takes half of a core for a while, again and again: it takes longer then.
Statistics beside_load(std::int64_t value, int count, double longer, double share, Random& random) {
  Statistics statistics;
  for (int i = 0; i < count; ++i) {
    const bool loaded = i % 20 < 20 * share;
    const double noise = 0.03 * random.normal();
    statistics.add(std::llround(static_cast<double>(value) * (loaded ? longer : 1) * std::exp(noise)));
  }
  return statistics;
}

TEST_CASE("a benchmark that was disturbed by planted load weighs less than a quiet training cost") {
  Random random(7);
  const auto benchmark = [&](std::int32_t samples, double longer) {
    return cost_from(kBenchmarkAlone, forward(samples), beside_load(1000 * samples, 40, longer, 0.45, random));
  };
  const Cost seen = cost_from(kTrainingAlone, forward(4), values(3800, 50, 0.04));
  SECTION("the load makes half of its values half as long again: training's are taken, and its ratio wholly") {
    const std::vector<Cost> costs{benchmark(1, 1.5), benchmark(4, 1.5), seen};
    const std::vector<ChosenCost> chosen = choose_costs(costs);
    CHECK(of(chosen, forward(4)).source.kind == CostSource::Kind::kTraining);
    const ChosenCost& other = of(chosen, forward(1));
    CHECK(other.source.disturbed);
    CHECK(other.corrected_by == forward(4));
    CHECK(measured(other, 1).error > 0.1 * 1000);
    CHECK(rests_on(other).find(", disturbed (the middle half of its values spans 4") != std::string::npos);
  }
  SECTION("without it nothing is disturbed") {
    const std::vector<Cost> costs{benchmark(1, 1), benchmark(4, 1), seen};
    for (const ChosenCost& one : choose_costs(costs)) CHECK_FALSE(one.source.disturbed);
  }
  SECTION("a load that is there for a tenth of the time leaves quartiles as they are") {
    const Cost few = cost_from(kBenchmarkAlone, forward(1), beside_load(1000, 40, 3, 0.1, random));
    CHECK_FALSE(of(choose_costs({few, seen}), forward(1)).source.disturbed);
  }
}

TEST_CASE("what always varies on a machine is not called disturbed, and what varies far beyond that is") {
  Random random(3);
  std::vector<Cost> costs;
  for (std::int32_t samples = 1; samples <= 5; ++samples) {
    costs.push_back(cost_from(kBenchmarkAlone, forward(samples), values(1000 * samples, 40, 0.4)));
    costs.push_back(cost_from(kTrainingAlone, forward(samples), values(1000 * samples, 40, 0.4)));
  }
  const auto disturbed = [&] {
    return std::ranges::count_if(told_apart(costs), [](const Cost& one) { return one.source.disturbed; });
  };
  CHECK(disturbed() == 0);
  costs[3].statistics = beside_load(2000, 40, 12, 0.5, random);  // training
  CHECK(disturbed() == 1);
  CHECK(told_apart(costs)[3].source.disturbed);
  costs[3] = cost_from(kTrainingAlone, forward(2), values(2000, 40, 0.4));
  for (Cost& one : costs) {
    if (one.source.kind == CostSource::Kind::kTraining) one.statistics = values(one.statistics.max(), 40, 0.02);
  }
  CHECK(disturbed() == 5);  // benchmarks beside quiet training
  for (Cost& one : costs) {
    const bool training = one.source.kind == CostSource::Kind::kTraining;
    one.statistics = values(one.statistics.max(), 40, training ? 0.4 : 0.02);
  }
  CHECK(disturbed() == 0);  // what varies in training is the job's own
  for (Cost& one : costs) one.statistics = values(one.statistics.max(), 9, 0.9);
  CHECK(disturbed() == 0);  // too few values
}

TEST_CASE("between the benchmark's sizes a transfer that training saw counts where it says something else") {
  const auto choose = [](double off) {
    std::vector<Cost> costs;
    for (const std::int64_t bytes : {1'000'000, 3'000'000}) {
      costs.push_back(cost_from(kBenchmarkAlone, all_reduce(bytes), values(bytes, 20, 0.01)));
    }
    const auto seen = std::llround(2'000'000 * off);
    costs.push_back(cost_from("training alone ranks-clock", all_reduce(2'000'000), values(seen, 50, 0.02)));
    return choose_costs(costs);
  };
  CHECK(choose(1.03).size() == 2);
  for (const ChosenCost& one : choose(1.03)) CHECK(one.source.kind == CostSource::Kind::kBenchmark);
  const ChosenCost& seen = of(choose(1.3), all_reduce(2'000'000));
  CHECK(seen.statistics.median() == Approx(2'600'000).epsilon(0.01));
  CHECK(of(choose(1.3), all_reduce(3'000'000)).factor > 1.1);
}

TEST_CASE("one transfer of many is taken as training saw it where it alone is off") {
  std::vector<Cost> costs;
  for (std::int64_t bytes = 1'000'000; bytes <= 61'000'000; bytes += 2'000'000) {
    costs.push_back(cost_from(kBenchmarkAlone, all_reduce(bytes), values(bytes, 20, 0.01)));
    const std::int64_t between = bytes + 1'000'000;
    const double off = between == 30'000'000 ? 1.1 : 1;
    costs.push_back(cost_from("training alone ranks-clock", all_reduce(between),
                              values(std::llround(off * static_cast<double>(between)), 50, 0.02)));
  }
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  CHECK(of(chosen, all_reduce(30'000'000)).source.kind == CostSource::Kind::kTraining);
  CHECK(of(chosen, all_reduce(31'000'000)).factor == 1);
  CHECK(std::ranges::count_if(chosen, [](const ChosenCost& one) { return seen_in_training(one.source); }) == 1);
}

TEST_CASE("a start-up and a rate that are wrong against each other are told apart by two sizes that training saw") {
  const auto truth = [](std::int64_t bytes) { return 2'000'000 + 2 * bytes; };
  const auto choose = [&](std::int64_t first, std::int64_t second) {
    std::vector<Cost> costs;
    for (const std::int64_t bytes : {1000, 100'000, 1'000'000, 10'000'000, 100'000'000}) {
      costs.push_back(cost_from(kBenchmarkAlone, all_reduce(bytes), values(3'000'000 + 14 * bytes / 10, 20, 0.01)));
    }
    for (const std::int64_t bytes : {first, second}) {
      costs.push_back(cost_from("training alone ranks-clock", all_reduce(bytes), values(truth(bytes), 50, 0.01)));
    }
    return choose_costs(costs);
  };
  const auto price = [](const ChosenCost& one) { return one.statistics.median() * one.factor; };
  for (const ChosenCost& one : choose(200'000, 20'000'000)) {
    CHECK(price(one) == Approx(static_cast<double>(truth(one.key.bytes))).epsilon(0.04));
    CHECK(one.log_sigma < 0.25);
  }
  // Two sizes that are near each other show what is wrong of a start-up alone, and say that more may be.
  const ChosenCost large = of(choose(200'000, 210'000), all_reduce(10'000'000));
  CHECK(price(large) == Approx(17'000'000 - 874'000).epsilon(0.02));
  CHECK(large.log_sigma > 0.1);
}

TEST_CASE("a degree that training never saw is corrected by the others, and less sure") {
  std::vector<Cost> costs{cost_from(kBenchmarkAlone, forward(4), values(4000, 10)),
                          cost_from(kTrainingAlone, forward(4), values(5200, 50)),
                          cost_from(kBenchmarkAlone, forward(4, 2), values(2100, 10))};
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  CHECK(of(chosen, forward(4, 2)).factor == Approx(1.3).epsilon(0.02));
  CHECK(of(chosen, forward(4, 2)).log_sigma > 0.05);
  costs[1].statistics = values(4300, 50);  // clear at its own degree, hardly beyond it
  CHECK(of(choose_costs(costs), forward(4)).source.kind == CostSource::Kind::kTraining);
  CHECK(of(choose_costs(costs), forward(4, 2)).factor < 1.05);
}

TEST_CASE("the price of an all-reduce after training is the median of its transfers, waiting excluded") {
  Cluster cluster;
  cluster.nodes = {{}};
  cluster.nodes[0].devices = 2;
  CostKey ring = all_reduce(7'340'032);  // 7 times a power of two: as the coordinator rounds
  ring.algorithm = "ring";
  ring.protocol = "simple";
  ring.channels = 8;
  CostKey tree = ring;
  tree.algorithm = "tree";
  const std::vector<Cost> costs{cost_from("training ranks-clock", ring, values(900'000, 60, 0.02)),
                                cost_from("training ranks-clock", tree, values(1'000'000, 20, 0.02)),
                                cost_from("training host-clock waiting", all_reduce(7'340'032), values(9'000'000, 90))};
  Statistics transfers = values(900'000, 60, 0.02);
  transfers.merge(values(1'000'000, 20, 0.02));
  const Value price = LinkCosts(cluster, choose_costs(costs), false).all_reduce(7'340'032, 2, Placement::kIntraNode);
  CHECK(price.quality == Quality::kMeasured);
  CHECK(price.mean == Approx(transfers.median() * 1e-6).epsilon(1e-9));
  CHECK(price.error > 0);
  // A ragged size beside it, and none far away.
  const Value ragged = LinkCosts(cluster, choose_costs(costs), false).all_reduce(7'000'000, 2, Placement::kIntraNode);
  CHECK(ragged.mean == Approx(price.mean * 7'000'000 / 7'340'032));
  CHECK(ragged.error > price.error);
  CHECK(LinkCosts(cluster, choose_costs(costs), false).all_reduce(70'000, 2, Placement::kIntraNode).quality ==
        Quality::kMissing);
}

TEST_CASE("a collective that was slowed down by computation beside it is no price of one alone") {
  Cluster cluster;
  cluster.nodes = {{}};
  cluster.nodes[0].devices = 2;
  const auto price = [&](const std::vector<Cost>& costs) {
    return LinkCosts(cluster, choose_costs(costs), false).all_reduce(7'340'032, 2, Placement::kIntraNode).mean;
  };
  CostKey ring = all_reduce(7'340'032);
  ring.channels = 8;
  const Cost slowed = cost_from("training beside-computation ranks-clock", ring, values(1'500'000, 60, 0.02));
  const Cost alone = cost_from("training alone ranks-clock", ring, values(900'000, 20, 0.02));
  const Cost not_said = cost_from("training ranks-clock", ring, values(1'200'000, 60, 0.02));
  const Cost benchmark = cost_from(kBenchmarkAlone, all_reduce(7'340'032), values(1'000'000, 20, 0.02));
  CHECK(price({slowed}) == Approx(1.5).epsilon(0.015));  // better than nothing
  CHECK(price({slowed, benchmark}) == Approx(1.0));
  CHECK(price({slowed, alone, not_said, benchmark}) == Approx(0.9).epsilon(0.015));
  CHECK(price({slowed, alone, not_said}) == Approx(0.9).epsilon(0.015));
  CHECK(price({slowed, not_said, benchmark}) == Approx(1.2).epsilon(0.015));
}

TEST_CASE("a benchmark measures again neither what training knows nor what it has measured itself, but what waits") {
  test::World world = test::make_world({{"a"}, {"b"}}, 1, 2, {1, 2});
  const auto missing = [&] { return needed_costs(world.model, world.cluster, Knobs{}, world.costs).size(); };
  const std::size_t before = missing();
  for (Cost& one : world.costs) one.source = parse_cost_source("passive");
  CHECK(missing() > before);
  for (Cost& one : world.costs) {
    one.source = parse_cost_source(kTrainingAlone);
    one.statistics = values(one.statistics.max(), kEnoughValues);
  }
  CHECK(missing() == before);
}

TEST_CASE("what trials have taught is not counted again when training says the same") {
  test::World world = test::make_world({{"a"}, {"b"}}, 1, 4, {1, 2, 4});
  Calibration learnt;
  learnt.operators["a"] = {1.2, 0.02};
  const CostTable before = world.table();
  CHECK(beside_corrections_of(before, learnt).operators.at("a").value == Approx(1.2));
  std::vector<Cost> seen;
  for (const Cost& one : world.costs) {
    const bool pass = one.key.kind == CostKind::kOperatorForward || one.key.kind == CostKind::kOperatorBackward;
    if (!pass || one.key.subject != "a" || one.key.samples != 2) continue;
    seen.push_back(cost_from(kTrainingAlone, one.key, values(std::llround(1.2 * one.statistics.mean()), 50)));
  }
  world.costs.insert(world.costs.end(), seen.begin(), seen.end());
  const CostTable after = world.table();
  REQUIRE(after.training_corrections().at("a") == Approx(1.2).epsilon(0.03));
  const Calibration now = beside_corrections_of(after, learnt);
  CHECK(now.operators.at("a").value == Approx(1).epsilon(0.03));
  CHECK(beside_corrections_of(after, now).operators.at("a").value == now.operators.at("a").value);
  // Where trials have taught nothing, training's correction stands.
  CHECK(beside_corrections_of(after, Calibration{}).operators.count("a") == 0);
  CHECK(parse_calibration(to_json(now)).value().corrections.at("a") == now.corrections.at("a"));
}

}  // namespace
}  // namespace trimtab::tuner
