// A stage's two clocks: its host issues passes, its devices run them, and at each moment one of the two is the limit.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "brute_force.hpp"
#include "native/calibration/operator_factors.hpp"
#include "native/costs/launch_costs.hpp"
#include "native/step/recorded_step.hpp"
#include "solvers/pipeline.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_choice.hpp"
#include "tuner/search.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMs = 1000000;

// Shares nothing with the simulation: lists of actions, run when what they need has ended and their host has come to
// them.
class TwoClockList {
 public:
  TwoClockList(const std::vector<PipelineStage>& stages, int microbatches, ScheduleKind kind)
      : stages_(stages), microbatches_(microbatches), of_(stages.size()) {
    const int count = static_cast<int>(stages.size());
    for (int s = 0; s < count; ++s) {
      const int ahead = kind == ScheduleKind::kGPipe ? microbatches : std::min(microbatches, count - 1 - s);
      for (int k = 0; k < microbatches + ahead; ++k) {
        if (k < microbatches) of_[s].actions.emplace_back(true, k);
        if (k >= ahead) of_[s].actions.emplace_back(false, k - ahead);
      }
      of_[s].ends[0].assign(microbatches, -1);
      of_[s].ends[1].assign(microbatches, -1);
    }
  }

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) moved = run_next(s) || moved;
    }
    double end = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      REQUIRE(of_[s].next == of_[s].actions.size());
      end = std::max(end, of_[s].device - stages_[s].last_backward + stages_[s].tail);
    }
    return end;
  }

 private:
  struct Rank {
    std::vector<std::pair<bool, int>> actions;
    std::size_t next = 0;
    double host = 0;
    double device = 0;
    std::vector<double> ends[2];  // backward, forward
  };

  bool run_next(std::size_t s) {
    Rank& rank = of_[s];
    if (rank.next == rank.actions.size()) return false;
    const auto [forward, k] = rank.actions[rank.next];
    double input = 0;
    if (forward ? s > 0 : s + 1 < stages_.size()) {
      const double sent = of_[forward ? s - 1 : s + 1].ends[forward][k];
      if (sent < 0) return false;
      input = sent + stages_[forward ? s - 1 : s].transfer;
    }
    const PipelineStage& stage = stages_[s];
    const double length = forward ? stage.forward : k == microbatches_ - 1 ? stage.last_backward : stage.backward;
    const double begin = std::max({rank.device, input, rank.host});
    rank.host += forward ? stage.forward_launch : stage.backward_launch;
    rank.device = rank.ends[forward][k] = std::max(begin + length, rank.host);
    ++rank.next;
    return true;
  }

  const std::vector<PipelineStage>& stages_;
  int microbatches_;
  std::vector<Rank> of_;
};

// Some stages' hosts are slow, some are not, some nobody timed.
std::vector<PipelineStage> random_stages(Random& random) {
  std::vector<PipelineStage> stages(1 + random.below(5));
  for (PipelineStage& stage : stages) {
    stage.forward = 0.2 + random.uniform();
    stage.backward = 0.2 + 2 * random.uniform();
    stage.last_backward = stage.backward * (1 + random.uniform());
    stage.tail = stage.last_backward + random.uniform();
    stage.transfer = random.below(3) == 0 ? 0 : 0.5 * random.uniform();
    if (random.below(4) == 0) continue;
    stage.forward_launch = 1.5 * random.uniform();
    stage.backward_launch = 2.5 * random.uniform();
  }
  return stages;
}

struct Unskipped : NoRecord {
  static constexpr bool kSkips = false;
};

TEST_CASE("a step with two clocks is that of an independent list of actions") {
  Random random(7);
  PipelineScratch scratch;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<PipelineStage> stages = random_stages(random);
    const auto count = static_cast<std::int32_t>(stages.size());
    const auto microbatches = static_cast<std::int32_t>(random.between(1, i % 10 == 0 ? 300 : 12));
    const ScheduleKind kind = random.below(4) == 0 ? ScheduleKind::kGPipe : ScheduleKind::k1F1B;
    INFO("case " << i);
    const double ms = simulate(stages.data(), count, microbatches, kind, scratch);
    REQUIRE(ms == Approx(TwoClockList(stages, microbatches, kind).run()).epsilon(1e-9));
  }
}

TEST_CASE("rounds are skipped exactly, whichever clock is the limit") {
  Random random(8);
  PipelineScratch scratch;
  for (int i = 0; i < 300; ++i) {
    const std::vector<PipelineStage> stages = random_stages(random);
    const auto count = static_cast<std::int32_t>(stages.size());
    const auto microbatches = static_cast<std::int32_t>(random.between(20, 3000));
    const double ms = simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch);
    Unskipped all;
    Simulation<Unskipped> stepped(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch, all);
    const double* const ends = stepped.run();
    synchronize(stepped.stages(), count, ends, {}, scratch.ready, nullptr);
    double end = 0;
    for (std::int32_t s = 0; s < count; ++s) end = std::max(end, scratch.ready[s] + stepped.stages()[s].after);
    INFO("case " << i);
    REQUIRE(ms == end);
  }
}

TEST_CASE("the path through a step adds up: devices, transfers and the host that decides") {
  Random random(9);
  int issued = 0;
  for (int i = 0; i < 2000; ++i) {
    PricedPlan priced;
    priced.pipeline = random_stages(random);
    priced.seats = static_cast<std::int32_t>(priced.pipeline.size());
    priced.microbatches = static_cast<std::int32_t>(random.between(1, 12));
    priced.transfers_meet = random.below(3) == 0;
    const RecordedStep step = record_step(priced);
    const CriticalPath path = critical_path(priced, step);
    const PipelineStage& end = priced.pipeline[path.end_stage];
    double sum = end.tail - (path.end_issued ? end.last_backward : 0);
    for (std::size_t s = 0; s < priced.pipeline.size(); ++s) {
      const PipelineStage& of = priced.pipeline[s];
      sum += path.forwards[s] * of.forward + path.backwards[s] * of.backward +
             path.last_backwards[s] * of.last_backward + path.transfers[s] * of.transfer + path.issuing[s];
      issued += path.issuing[s] > 0 ? 1 : 0;
    }
    INFO("case " << i);
    REQUIRE(sum == Approx(step.end_ms).epsilon(1e-9));
  }
  CHECK(issued > 500);
}

Cost launch(CostKind kind, const std::string& subject, std::int32_t samples, std::int64_t ns,
            const std::string& way = "") {
  CostKey key = test::operator_key(kind, subject, samples);
  key.algorithm = "launch";
  key.protocol = way;
  Cost cost = test::exact_cost(key, ns);
  cost.source.clock = CostSource::Clock::kHost;
  return cost;
}

// Two operators whose kernels take 1 and 2 ms a sample in their passes, and whose host takes as long for any number.
test::World world_of(std::int64_t forward_launch, std::int64_t backward_launch, std::int64_t update_launch = 0) {
  std::vector<test::OperatorTruth> operators(2);
  for (test::OperatorTruth& of : operators) {
    of.cost_key = "layer";
    of.forward_ns = kMs;
    of.backward_ns = 2 * kMs;
    of.optimizer_ns = kMs;
    of.parameter_bytes = 1000;
  }
  test::World world = test::make_world(operators, 1, 32, {1, 2, 4, 8, 16, 32});
  if (forward_launch > 0) world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, forward_launch));
  if (backward_launch > 0) world.costs.push_back(launch(CostKind::kOperatorBackward, "layer", 1, backward_launch));
  if (update_launch > 0) world.costs.push_back(launch(CostKind::kOptimizerStep, "layer", 0, update_launch));
  return world;
}

Prediction priced(const test::World& world, std::int32_t microbatch, const Calibration& calibration = {}) {
  return NativeCostModel(world.table(), calibration).evaluate(test::make_plan(world.model, microbatch, {2}, {1}));
}

TEST_CASE("at each moment the host or the device is the limit") {
  const test::World world = world_of(5 * kMs, 7 * kMs, 4 * kMs);
  // The host issues 24 ms of each microbatch, and then two updates.
  CHECK(priced(world, 1).iteration_ms == Approx(32 * 24 + 8));
  CHECK(priced(world, 2).iteration_ms == Approx(16 * 24 + 8));
  // The first forward of 8 samples takes 16 ms, longer than it is issued; so the device is never without work.
  CHECK(priced(world, 8).iteration_ms == Approx(4 * 48 + 8));
  CHECK(priced(world, 32).iteration_ms == Approx(6 * 32 + 8));
  // One microbatch: a forward that is issued as it runs, and a backward that is longer.
  const test::World forward = world_of(40 * kMs, kMs);
  CHECK(priced(forward, 32).iteration_ms == Approx(80 + 128 + 2));
  CHECK(priced(world, 1).bottleneck.resource == "launches");
  CHECK(priced(world, 32).bottleneck.resource == "computation");
  CHECK(priced(world, 1).launch_share_ms == Approx(32 * 24 + 8));
  CHECK(priced(world, 32).launch_share_ms == Approx(8));
}

// Of a stage, what it waits for its host.
double launching(const Prediction& prediction, std::size_t stage) {
  const StepTerms& terms = prediction.stages[stage].terms;
  CHECK(terms.total_ms() == Approx(prediction.iteration_ms));
  CHECK(terms.launching_ms <= terms.idle_ms);
  return terms.launching_ms;
}

TEST_CASE("what a stage's devices wait for their host is a part of its idleness") {
  // Kernels take 6 ms of a microbatch's 24 in the passes, and 1 of 4 in each update.
  const Prediction bound = priced(world_of(5 * kMs, 7 * kMs, 4 * kMs), 1);
  CHECK(launching(bound, 0) == Approx(bound.iteration_ms - 32 * 6 - 2));
  CHECK(bound.stages[0].terms.computation_ms == Approx(32 * 6 + 2));
  CHECK_THAT(to_json(bound), Catch::Contains("\"launch_bound_ms\""));
  CHECK(launching(priced(world_of(5 * kMs, 7 * kMs), 32), 0) == 0);
  // A stage that waits for the next one's slow host waits for a transfer, and that one for its host.
  test::World world = world_of(0, 0);
  world.model.operators[1].cost_key = "slow";
  for (std::size_t i = 0, all = world.costs.size(); i < all; ++i) {
    if (world.costs[i].key.subject != "layer") continue;
    world.costs.push_back(world.costs[i]);
    world.costs.back().key.subject = "slow";
  }
  world.costs.push_back(launch(CostKind::kOperatorForward, "slow", 1, 20 * kMs));
  world.costs.push_back(launch(CostKind::kOptimizerStep, "slow", 0, 2));  // messages take half as long
  world.cluster.nodes[0].devices = 2;
  test::add_links(world, 1000, 0);
  Plan plan = test::make_plan(world.model, 4, {1, 2}, {1, 1});
  for (const bool meet : {false, true}) {
    if (meet) plan.target_knobs = {{"transfers_meet", "true"}};
    const Prediction piped = NativeCostModel(world.table()).evaluate(plan);
    INFO(to_json(piped));
    CHECK(launching(piped, 0) == 0);
    CHECK(launching(piped, 1) > 0.3 * piped.iteration_ms);
  }
}

TEST_CASE("a launch is no plain cost, and without one nothing changes") {
  const test::World with = world_of(5 * kMs, 7 * kMs);
  const test::World without = world_of(0, 0);
  CHECK(choose_costs(with.costs).size() == choose_costs(without.costs).size());
  CHECK(one_cost_each(with.costs).size() == one_cost_each(without.costs).size());
  CHECK(priced(without, 1).iteration_ms == Approx(6 * 32 + 2));
  CHECK(priced(without, 1).launch_share_ms == 0);
  CHECK(to_json(priced(without, 1)).find("launch") == std::string::npos);
}

TEST_CASE("what is launched kernel by kernel counts before what is compiled or a graph") {
  test::World world = world_of(0, 0);
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 50, "graph"));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 90, "compiled"));
  CHECK(LaunchCosts(world.model, world.costs).at("layer", 4, 1, false).forward == Approx(90e-6));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 700));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 8, 900));
  const LaunchCosts launches(world.model, world.costs);
  CHECK(launches.at("layer", 4, 1, false).forward > 700e-6);
  CHECK(launches.at("layer", 4, 1, false).forward < 900e-6);
  // Beyond what was measured the nearest stands; more ranks issue no less.
  CHECK(launches.at("layer", 32, 4, true).forward == Approx(900e-6));
  CHECK(launches.at("other", 1, 1, false).forward == 0);
}

TEST_CASE("the way that a model's program launches counts before all others, where it was measured") {
  test::World world = world_of(0, 0);
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 700));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 90, "compiled"));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 50, "graph"));
  const auto forward = [&world](LaunchedAs way) {
    world.model.launched_as = way;
    return LaunchCosts(world.model, world.costs).at("layer", 4, 1, false).forward;
  };
  CHECK(forward(LaunchedAs::kKernels) == Approx(700e-6));
  CHECK(forward(LaunchedAs::kCompiled) == Approx(90e-6));
  CHECK(forward(LaunchedAs::kGraph) == Approx(50e-6));
  world.costs.pop_back();
  CHECK(forward(LaunchedAs::kGraph) == Approx(700e-6));
}

TEST_CASE("a message or a collective is issued in half of the shortest launch, as unsure as it may be any part of it") {
  test::World world = world_of(700, 0, 300);
  const LaunchCosts launches(world.model, world.costs);
  const Launches some = launches.messages(2, 3, 4);
  CHECK(some.forward == Approx(2 * 150e-6));
  CHECK(some.backward == Approx(3 * 150e-6));
  CHECK(some.update == Approx(4 * 150e-6));
  CHECK(some.error == Approx(5 * 300e-6 / std::sqrt(12)).epsilon(0.001));
  // Sums of tensor-parallel ranks are in what these ranks were measured to launch, and in no launch of one rank.
  CHECK(launches.at("layer", 1, 2, false, 2).forward == Approx(1000e-6));
  world.costs.push_back(launch(CostKind::kOperatorForward, "layer", 1, 1100));
  world.costs.back().key.tp = 2;
  CHECK(LaunchCosts(world.model, world.costs).at("layer", 1, 2, false, 2).forward == Approx(1100e-6));
  CHECK(LaunchCosts(world.model, {}).messages(1, 1, 1).both() == 0);
}

TEST_CASE("hosts make no plan faster, and bounds and answers stay what they say") {
  Random random(31);
  for (int i = 0; i < test::tried(20); ++i) {
    test::World world = test::random_world(random, {5, 3, 2});
    const CostTable device_alone = world.table();
    for (const Operator& op : world.model.operators) {
      for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward}) {
        world.costs.push_back(launch(kind, op.cost_key, 1, 1 + static_cast<std::int64_t>(random.below(40 * kMs))));
      }
    }
    INFO("world " << i);
    const test::BruteForceResult every = test::brute_force(world, test::brute_force_space(world, "job"));
    const NativeCostModel model(world.table());
    if (every.plan) {
      REQUIRE(every.ms >= NativeCostModel(device_alone).evaluate(*every.plan).iteration_ms * (1 - 1e-9));
    }
    for (const char* const strategy : {"exhaustive", "unified"}) {
      SearchOptions options;
      options.strategy = strategy;
      const SearchResult result = search(model, Knobs{}, options).value().result;
      REQUIRE(result.plans.empty() == (every.ms == 0));
      if (result.plans.empty()) continue;
      REQUIRE(result.plans.front().prediction.iteration_ms >= every.ms * (1 - 1e-9));
      REQUIRE(result.lower_bound_ms <= every.ms * (1 + 1e-9));
      if (result.proven) REQUIRE(result.plans.front().prediction.iteration_ms == Approx(every.ms).epsilon(1e-9));
      const SearchOptions nothing_enumerated = [&] {
        SearchOptions bounded = options;
        bounded.unified.enumerated_ways = 0;
        return bounded;
      }();
      const SearchResult bounded = search(model, Knobs{}, nothing_enumerated).value().result;
      REQUIRE(bounded.lower_bound_ms <= every.ms * (1 + 1e-9));
      if (bounded.proven) REQUIRE(bounded.plans.front().prediction.iteration_ms == Approx(every.ms).epsilon(1e-9));
    }
  }
}

// Steps of these microbatches as they are in a world whose computing and launching take so many times as long.
std::vector<Observation> observed(const test::World& world, const Calibration& truth,
                                  const std::vector<std::int32_t>& microbatches) {
  std::vector<Observation> all;
  for (const std::int32_t microbatch : microbatches) {
    Observation seen;
    seen.plan = test::make_plan(world.model, microbatch, {2}, {1});
    seen.prediction = priced(world, microbatch);
    seen.measured_ms = priced(world, microbatch, truth).iteration_ms;
    seen.measured_sigma_ms = 0.001 * seen.measured_ms;
    all.push_back(seen);
  }
  return all;
}

TEST_CASE("what launches take too long is not learnt of computing, nor the other way round") {
  const test::World world = world_of(5 * kMs, 7 * kMs);
  Calibration slow_host;
  slow_host.launching.value = 1.4;
  Calibration learnt = calibrate(world.table(), observed(world, slow_host, {1, 2, 4}), {});
  CHECK(learnt.launching.value == Approx(1.4).epsilon(0.03));
  CHECK(learnt.computation.value == 1);
  CHECK(priced(world, 32, learnt).iteration_ms == Approx(6 * 32 + 2).epsilon(0.02));
  Calibration slow_device;
  slow_device.computation.value = 1.3;
  learnt = calibrate(world.table(), observed(world, slow_device, {8, 16, 32}), {});
  CHECK(learnt.launching.value == 1);
  CHECK(learnt.computation.value == Approx(1.3).epsilon(0.03));
  CHECK(priced(world, 1, learnt).iteration_ms == Approx(32 * 24 + 2).epsilon(0.02));
}

TEST_CASE("what was learnt of launches survives its document, and earlier documents are as they were") {
  CHECK(to_json(Calibration{}).find("launching") == std::string::npos);
  CHECK(parse_calibration(to_json(Calibration{})).value().launching.value == 1);
  Calibration learnt;
  learnt.launching = {1.3, 0.04};
  learnt.correlations.back() = -0.25;
  const Calibration back = parse_calibration(to_json(learnt)).value();
  CHECK(back.launching.value == 1.3);
  CHECK(back.launching.log_sigma == 0.04);
  CHECK(back.correlations == learnt.correlations);
  CHECK(aged(learnt).launching.log_sigma > 0.04);
  CHECK(to_json(aged(Calibration{})).find("launching") == std::string::npos);
}

TEST_CASE("passes that waited for their host teach no operator's factor") {
  const auto teach = [](std::int64_t launch_ns) {
    const test::World world = world_of(launch_ns, launch_ns);
    std::vector<Observation> all = observed(world, {}, {1, 2, 4});
    for (Observation& seen : all) seen.measured_pass_ms = {1.5 * 6 * 32};
    return learn_operators(world.table(), all, {});
  };
  const OperatorFactors quick = teach(1000);
  REQUIRE_FALSE(quick.without.empty());
  CHECK(quick.learnt.computation.value > 1.2);
  CHECK(teach(20 * kMs).without.empty());
}

}  // namespace
}  // namespace trimtab::tuner
