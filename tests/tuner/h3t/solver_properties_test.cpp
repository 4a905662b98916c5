#include <catch2/catch.hpp>

#include "analytic_layers.hpp"
#include "papers/h3t/published_solvers.hpp"
#include "random_layers.hpp"
#include "solvers/h3t/exact_solver.hpp"
#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {
namespace {

struct Ratios {
  double partition = 0, lazy = 0, rematerialize = 0, offload = 0;
};

Ratios ratios_of(const Switching& switches) {
  Ratios of;
  const double each = 1.0 / static_cast<double>(switches.size());
  for (const LayerSwitches& layer : switches) {
    of.partition += layer.partition_parameters ? each : 0;
    of.lazy += layer.lazy_prefetch ? each : 0;
    of.rematerialize += layer.rematerialize ? each : 0;
    of.offload += layer.offload_hidden ? each : 0;
  }
  return of;
}

Ratios solved(const LayerProfile& layer, std::int32_t count, Bytes limit) {
  const std::vector<LayerProfile> layers(static_cast<std::size_t>(count), layer);
  const Problem problem{layers, Fabric::kPcie, limit};
  const ExactAnswer answer = solve_exactly(problem);
  REQUIRE(answer.feasible);
  REQUIRE(answer.proven);
  return ratios_of(answer.best.switches);
}

}  // namespace

TEST_CASE("more memory is never slower, and the answer is its own simulation", "[h3t]") {
  const std::uint64_t seed = 314;
  Random random(seed);
  for (std::int32_t round = 0; round < 30; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::vector<LayerProfile> layers = test::random_layers(random, 6, round % 2 == 0);
    const Fabric fabric = round % 3 == 0 ? Fabric::kPcie : Fabric::kNvlink;
    Ticks before = std::numeric_limits<Ticks>::max();
    for (const double share : {0.0, 0.1, 0.25, 0.5, 1.0, 2.0}) {
      const Problem problem{layers, fabric, test::limit_at(layers, fabric, share)};
      const ExactAnswer answer = solve_exactly(problem);
      if (!answer.feasible) {
        CHECK(before == std::numeric_limits<Ticks>::max());  // nothing fitted with less either
        continue;
      }
      CHECK(answer.best.outcome.runtime <= before);
      CHECK(answer.best.outcome.peak <= problem.device_limit);
      CHECK(solution_of(problem, answer.best.switches).outcome == answer.best.outcome);
      before = answer.best.outcome.runtime;
    }
  }
}

TEST_CASE("no published solver beats the exact one, and all that they find fits", "[h3t]") {
  const std::uint64_t seed = 2718;
  Random random(seed);
  for (std::int32_t round = 0; round < 12; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::vector<LayerProfile> layers = test::random_layers(random, 4, round % 2 == 0);
    Problem problem{layers, round % 3 == 0 ? Fabric::kPcie : Fabric::kNvlink};
    problem.device_limit = test::random_limit(random, layers, problem.fabric);
    const ExactAnswer exact = solve_exactly(problem);
    for (const std::optional<Solution>& other :
         {solve_greedily(problem), solve_by_published_program(problem), best_uniform(problem)}) {
      if (!other) continue;
      REQUIRE(exact.feasible);
      CHECK(problem.fits(other->outcome));
      const bool synchronized = std::all_of(other->switches.begin(), other->switches.end(),
                                            [](const LayerSwitches& of) { return of.segment_sync; });
      if (synchronized) CHECK(other->outcome.runtime >= exact.best.outcome.runtime);
    }
    if (!exact.feasible) continue;
    const Solution free = freed(problem, exact.best, {});
    CHECK(problem.fits(free.outcome));
    CHECK(free.outcome.runtime <= exact.best.outcome.runtime);
  }
}

TEST_CASE("fewer labels only widen the gap", "[h3t]") {
  Random random(6);
  for (std::int32_t round = 0; round < 10; ++round) {
    const std::vector<LayerProfile> layers = test::random_layers(random, 12, round % 2 == 0);
    Problem problem{layers, Fabric::kNvlink, test::limit_at(layers, Fabric::kNvlink, 0.2)};
    const ExactAnswer exact = solve_exactly(problem);
    if (!exact.feasible) continue;
    REQUIRE(exact.proven);
    ExactOptions few;
    few.most_labels = 13 * 8;
    const ExactAnswer thin = solve_exactly(problem, few);
    CHECK(thin.feasible);
    CHECK(thin.best.outcome.runtime >= exact.best.outcome.runtime);
    CHECK(thin.bound <= exact.best.outcome.runtime);
    CHECK(thin.proven == (thin.bound == thin.best.outcome.runtime));
  }
}

TEST_CASE("48 synchronized layers are solved within 1 % by a bounded number of labels", "[h3t]") {
  constexpr std::int32_t kLayers = 48;
  Random random(48);
  for (const test::Machine& machine : test::machines()) {
    for (const test::TransformerSize& size : test::sizes()) {
      for (const double spread : {0.0, 0.2}) {
        const LayerProfile layer = test::analytic_layer(machine, size, 16);
        const std::vector<LayerProfile> layers = test::spread_layers(layer, kLayers, spread, random);
        for (const double share : {0.04, 0.15, 0.4}) {
          const Problem problem{layers, machine.fabric, test::limit_at(layers, machine.fabric, share)};
          ExactOptions options;
          options.most_labels = 400'000;
          options.gap = 0.01;
          const ExactAnswer answer = solve_exactly(problem, options);
          INFO(machine.name << ", " << size.name << ", spread " << spread << ", share " << share);
          REQUIRE(answer.feasible);
          CHECK(problem.fits(answer.best.outcome));
          CHECK(answer.gap() <= 0.01);
          for (const LayerSwitches& of : answer.best.switches) CHECK(of.segment_sync);
        }
      }
    }
  }
}

TEST_CASE("a solver that is stopped still has what fits", "[h3t]") {
  const LayerProfile layer = test::analytic_layer(test::machines()[0], test::sizes()[0], 16);
  const std::vector<LayerProfile> layers(48, layer);
  const Problem problem{layers, Fabric::kPcie, test::limit_at(layers, Fabric::kPcie, 0.15)};
  std::int32_t asked = 0;
  ExactOptions options;
  options.stop = [&asked] { return ++asked > 3; };
  const ExactAnswer answer = solve_exactly(problem, options);
  CHECK(answer.feasible);
  CHECK(problem.fits(answer.best.outcome));
  CHECK_FALSE(answer.proven);
  CHECK(answer.bound <= answer.best.outcome.runtime);
}

TEST_CASE("all switches on have the lowest peak of the uniform answers", "[h3t]") {
  for (const test::Machine& machine : test::machines()) {
    for (const test::TransformerSize& size : test::sizes()) {
      const std::vector<LayerProfile> layers(12, test::analytic_layer(machine, size, 16));
      SegmentSimulator simulator(layers, machine.fabric);
      const Bytes least = simulator.step(Switching(12, kAllOn)).peak;
      for (const LayerSwitches& one : all_combinations()) {
        CHECK(simulator.step(Switching(12, one)).peak >= least);
      }
      const Problem problem{layers, machine.fabric};
      const Switching lowest = least_memory(StepProgram(problem));
      CHECK(solution_of(problem, lowest).outcome.peak <= least);
    }
  }
}

// Table 6: on 8 x 2080 Ti at about 8 GB, slower copies turn the switches that copy off and rematerialization up, slower
// computation turns those up that copy and rematerialization down, and more memory turns partition and
// rematerialization down. (With more memory the table's prefetching and offloading rise, where its text has them fall.)
// Copies beside long computation take no time: a layer more or less with such a switch is the same.
TEST_CASE("switches follow the machine as in the paper's table 6", "[h3t]") {
  const test::Machine& machine = test::machines()[0];
  const LayerProfile layer = test::analytic_layer(machine, test::sizes()[0], 16);
  const std::vector<LayerProfile> layers(48, layer);
  const Bytes limit = test::limit_at(layers, machine.fabric, 0.1);
  const Ratios usual = solved(layer, 48, limit);
  INFO("usual " << usual.partition << " " << usual.lazy << " " << usual.rematerialize << " " << usual.offload);

  test::Machine slow_copies = machine;
  slow_copies.host_bytes_per_s /= 10;
  slow_copies.gather_bytes_per_s /= 10;
  const Ratios copies = solved(test::analytic_layer(slow_copies, test::sizes()[0], 16), 48, limit);
  INFO("copies " << copies.partition << " " << copies.lazy << " " << copies.rematerialize << " " << copies.offload);
  CHECK(copies.partition < usual.partition);
  CHECK(copies.lazy < usual.lazy);
  CHECK(copies.offload < usual.offload);
  CHECK(copies.rematerialize > usual.rematerialize);

  test::Machine slow_computing = machine;
  slow_computing.flops /= 10;
  const Ratios computing = solved(test::analytic_layer(slow_computing, test::sizes()[0], 16), 48, limit);
  INFO("computing " << computing.partition << " " << computing.lazy << " " << computing.rematerialize << " "
                    << computing.offload);
  constexpr double kOneLayer = 1.01 / 48;
  CHECK(computing.lazy >= usual.lazy - kOneLayer);
  CHECK(computing.offload >= usual.offload - kOneLayer);
  CHECK(computing.rematerialize <= usual.rematerialize);

  const Ratios roomy = solved(layer, 48, 3 * limit);
  INFO("roomy " << roomy.partition << " " << roomy.lazy << " " << roomy.rematerialize << " " << roomy.offload);
  CHECK(roomy.partition <= usual.partition);
  CHECK(roomy.rematerialize < usual.rematerialize);
}

}  // namespace trimtab::tuner::h3t
