// The program over a stage's operators: against every choice of small stages, and its terms against the native model's
// own price of the stage.

#include "solvers/stage_program.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "native/costs/tables.hpp"
#include "native/stage/native_stage_program.hpp"
#include "native/step/native_evaluator.hpp"
#include "split_world.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

AddedCost random_cost(Random& random) {
  if (random.below(8) == 0) return {};
  return {static_cast<double>(random.between(1, 20)), static_cast<double>(random.between(0, 20))};
}

StageTerms random_terms(Random& random) {
  StageTerms terms;
  terms.operators = static_cast<std::size_t>(random.between(1, 5));
  terms.ways = static_cast<std::size_t>(random.between(1, 4));
  terms.layouts = static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(terms.ways)));
  for (std::size_t way = 0; way < terms.ways; ++way) {
    terms.layout_of.push_back(way < terms.layouts ? way : random.below(terms.layouts));
  }
  for (std::size_t i = 0; i < terms.operators * terms.ways; ++i) {
    terms.kept.push_back(random_cost(random));
    terms.again.push_back(random_cost(random));
  }
  for (std::size_t i = 0; i < terms.operators * terms.layouts * terms.layouts; ++i) {
    const bool same = i / terms.layouts % terms.layouts == i % terms.layouts;
    terms.change.push_back(same ? 0 : random.below(9) == 0 ? kInfinite : static_cast<double>(random.between(0, 9)));
  }
  return terms;
}

AddedCost cost_of(const StageTerms& terms, const std::vector<OperatorWay>& ways) {
  AddedCost all{0, 0};
  for (std::size_t op = 0; op < ways.size(); ++op) {
    const std::size_t way = ways[op].way;
    const AddedCost& cost = (ways[op].again ? terms.again : terms.kept)[op * terms.ways + way];
    all.time += cost.time;
    all.bytes += cost.bytes;
    if (op == 0) continue;
    const std::size_t from = terms.layout_of[ways[op - 1].way];
    all.time += terms.change[(op * terms.layouts + from) * terms.layouts + terms.layout_of[way]];
  }
  return all;
}

// The least time of all choices within the limit.
double brute_force(const StageTerms& terms, double limit) {
  double best = kInfinite;
  std::vector<OperatorWay> ways;
  const std::function<void()> grow = [&] {
    if (ways.size() == terms.operators) {
      const AddedCost cost = cost_of(terms, ways);
      if (cost.bytes <= limit) best = std::min(best, cost.time);
      return;
    }
    for (std::uint32_t way = 0; way < terms.ways; ++way) {
      for (const bool again : {false, true}) {
        ways.push_back({way, again});
        grow();
        ways.pop_back();
      }
    }
  };
  grow();
  return best;
}

TEST_CASE("the stage program finds the least time of every choice under every limit") {
  const std::uint64_t seed = 71;
  INFO("seed " << seed);
  Random random(seed);
  int limited = 0;
  int none = 0;
  for (int i = 0; i < 400; ++i) {
    INFO("case " << i);
    const StageTerms terms = random_terms(random);
    const double free = brute_force(terms, kInfinite);
    for (const double limit : {5.0, 15.0, 30.0, 50.0, kInfinite}) {
      INFO("limit " << limit);
      const double best = brute_force(terms, limit);
      const std::vector<StageWays> found = solve_stage(terms, {limit, limit});
      REQUIRE(found.empty() == std::isinf(best));
      if (found.empty()) {
        ++none;
        continue;
      }
      if (best > free) ++limited;
      REQUIRE(found.front().time == best);
      const AddedCost cost = cost_of(terms, found.front().operators);
      REQUIRE(cost.time == found.front().time);
      REQUIRE(cost.bytes == found.front().bytes);
      REQUIRE(cost.bytes <= limit);
    }
  }
  CHECK(limited > 200);
  CHECK(none > 50);
}

TEST_CASE("where bytes matter down to nothing, the answers are the best for every limit") {
  const std::uint64_t seed = 72;
  INFO("seed " << seed);
  Random random(seed);
  std::size_t answers = 0;
  for (int i = 0; i < 200; ++i) {
    INFO("case " << i);
    const StageTerms terms = random_terms(random);
    const std::vector<StageWays> found = solve_stage(terms, {-1, kInfinite}, 1000);
    answers += found.size();
    for (std::size_t k = 0; k < found.size(); ++k) {
      REQUIRE(found[k].time == brute_force(terms, found[k].bytes));
      if (k == 0) continue;
      REQUIRE(found[k].bytes < found[k - 1].bytes);
      // Nothing between two of them is faster than the leaner one.
      REQUIRE(found[k].time == brute_force(terms, found[k - 1].bytes - 1));
    }
  }
  CHECK(answers > 400);
}

TEST_CASE("with few labels the answers still fit, and the fastest without a limit is exact") {
  Random random(73);
  for (int i = 0; i < 200; ++i) {
    INFO("seed 73, case " << i);
    const StageTerms terms = random_terms(random);
    const double free = brute_force(terms, kInfinite);
    const std::vector<StageWays> found = solve_stage(terms, {-1, kInfinite}, 2);
    REQUIRE(found.empty() == std::isinf(free));
    if (!found.empty()) REQUIRE(found.front().time == free);
    for (const StageWays& ways : solve_stage(terms, {20, 20}, 2)) REQUIRE(ways.bytes <= 20);
  }
}

// A world with its evaluator, and the program for one stage of all its devices.
struct OneStage {
  explicit OneStage(const test::World& world)
      : model(world.table(true)),
        space(named_space("all", world.model, world.cluster, Knobs{}, 1).value()),
        evaluator(model, space),
        catalog(model.table().tables()),
        node_of(nodes_of_devices(world.cluster)),
        program(model.table().tables(), space, node_of, catalog) {
    for (std::int32_t device = 0; device < space.devices; ++device) devices.push_back(device);
    site.operators = {0, space.operators};
    site.devices = space.devices;
    site.microbatch = world.model.global_batch;
    site.device_of = devices.data();
    site.limit_bytes = static_cast<double>(world.cluster.nodes[0].memory_bytes);
    program.place(site, model.calibration());
  }

  [[nodiscard]] StagePrice price(const StageWays& ways) {
    const CandidateStage stage = program.stages(ways).back();
    return evaluator.stage_alone(stage, 0, 0, site.microbatch, site.held);
  }

  NativeCostModel model;
  PlanSpace space;
  NativeEvaluator evaluator;
  SplitCatalog catalog;
  std::vector<std::int32_t> node_of;
  std::vector<std::int32_t> devices;
  StageSite site;
  NativeStageProgram program;
};

bool has_replicas(const OneStage& of, const StageWays& ways) {
  const CandidateStage stage = of.program.stages(ways).back();
  for (const CandidateSegment& segment : segments_of(stage)) {
    if (segment.split.dp > 1) return true;
  }
  return false;
}

TEST_CASE("the program's terms are the native model's: time where nothing overlaps, and what surely fits or does not") {
  const std::uint64_t seed = 74;
  INFO("seed " << seed);
  Random random(seed);
  int equal = 0;
  int ample = 0;
  int beyond = 0;
  for (int i = 0; i < 300; ++i) {
    INFO("case " << i);
    test::World world = test::random_split_world(random, {6, 4, 2});
    Node& node = world.cluster.nodes.front();
    if (world.cluster.nodes.size() > 1 || node.memory_bytes == 0) continue;
    node.memory_bytes *= 2;
    OneStage stage(world);
    if (stage.program.ways() == 0) continue;
    const ByteWindow window = stage.program.window();
    for (const StageWays& ways : solve_stage(stage.program.terms({1, 1, 0}), {-1, kInfinite})) {
      const StagePrice price = stage.price(ways);
      REQUIRE(price.priced);
      if (ways.bytes <= window.ample) {
        ++ample;
        REQUIRE(price.excess_bytes <= 0);
      }
      if (price.excess_bytes > 0) ++beyond;
      // In sub-batches a stage may need less than the limit counts with.
      if (price.excess_bytes <= 0) REQUIRE(ways.bytes <= window.limit + 0.5);
      if (has_replicas(stage, ways)) continue;
      ++equal;
      REQUIRE(price.forward + price.backward + price.recompute + price.communication == Approx(ways.time));
    }
  }
  CHECK(equal > 100);
  CHECK(ample > 100);
  CHECK(beyond > 100);
}

TEST_CASE("what the evaluator proposes for a stage fits and is split as the space allows") {
  const std::uint64_t seed = 75;
  INFO("seed " << seed);
  Random random(seed);
  int proposals = 0;
  int mixed = 0;
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i);
    const OneStage of(test::random_split_world(random, {10, 8, 4}));
    NativeEvaluator evaluator(of.model, of.space);
    Candidate candidate;
    candidate.microbatch = of.site.microbatch;
    candidate.stages = {replicated_stage(of.space.operators, of.space.devices)};
    for (const CandidateStage& stage : evaluator.stage_proposals(candidate, 0)) {
      Candidate changed = candidate;
      changed.stages[0] = stage;
      REQUIRE(evaluator.price(changed).fits());
      for (const CandidateSegment& segment : segments_of(stage)) {
        REQUIRE(of.space.allows(evaluator.model(), candidate.microbatch, stage.devices, segment.split));
      }
      ++proposals;
      if (!stage.segments.empty()) ++mixed;
    }
  }
  CHECK(proposals > 100);
  CHECK(mixed > 50);
}

TEST_CASE("nothing is proposed where a space splits stages in one way") {
  Random random(76);
  const test::World world = test::random_split_world(random, {8, 8, 4});
  const NativeCostModel model(world.table(true));
  const PlanSpace space = named_space("job", world.model, world.cluster, Knobs{}, 1).value();
  NativeEvaluator evaluator(model, space);
  Candidate candidate;
  candidate.microbatch = world.model.global_batch;
  candidate.stages = {replicated_stage(space.operators, space.devices)};
  CHECK(evaluator.stage_proposals(candidate, 0).empty());
}

}  // namespace
}  // namespace trimtab::tuner
