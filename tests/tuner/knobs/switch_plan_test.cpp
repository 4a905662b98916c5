// Stages with memory switches: one stage of one microbatch is H3T's own step, pipelines hold what microbatches leave.

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "../world.hpp"
#include "native/step/native_evaluator.hpp"
#include "papers/h3t/h3t_plan.hpp"
#include "papers/h3t/step_inputs.hpp"
#include "plan/candidate.hpp"
#include "pricing/evaluator.hpp"
#include "solvers/h3t/segment_simulator.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kLayers = 4;

// Layers of one operator, copies and the host's optimizer measured. `nodes` of `devices` each.
test::World switch_world(std::int32_t nodes, std::int32_t devices) {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.forward_ns = 1000000;
  truth.backward_ns = 2000000;
  truth.stored_bytes = 9000;
  truth.working_bytes = 500;
  truth.parameter_bytes = 4000;
  truth.optimizer_ns = 1000000;
  truth.output_bytes = 1000;
  test::World world =
      test::make_world(std::vector<test::OperatorTruth>(kLayers, truth), nodes * devices, 8, {1, 2, 4, 8});
  std::int32_t layer = 0;
  for (Operator& op : world.model.operators) op.layer = layer++;
  Node node = world.cluster.nodes.front();
  node.devices = devices;
  world.cluster.nodes.clear();
  for (std::int32_t n = 0; n < nodes; ++n) {
    node.name = "n" + std::to_string(n);
    world.cluster.nodes.push_back(node);
  }
  test::add_links(world, 1000, 100);
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    CostKey key = cost.key;
    if (key.kind == CostKind::kOptimizerStep) key.placement = "host";
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    if (key.kind == CostKind::kOptimizerStep) world.costs.push_back(test::exact_cost(key, 2 * value));
    if (key.kind == CostKind::kPointToPoint) {
      key.placement = "inter_node";
      world.costs.push_back(test::exact_cost(key, value));
    }
    if (key.kind != CostKind::kCollective) continue;
    for (const char* const placement : {"intra_node", "inter_node"}) {
      for (const char* const primitive : {"all_gather", "reduce_scatter", "all_reduce"}) {
        key.placement = placement;
        key.subject = primitive;
        if (key != cost.key) world.costs.push_back(test::exact_cost(key, value));
      }
    }
  }
  for (const char* const direction : {"host_to_device", "device_to_host"}) {
    for (const std::int64_t bytes : {1, 1000000}) {
      CostKey key = test::link_key(CostKind::kPointToPoint, bytes);
      key.subject = direction;
      world.costs.push_back(test::exact_cost(key, 5000 + 300 * bytes));
    }
  }
  return world;
}

h3t::Switching random_switching(Random& random) {
  h3t::Switching switching;
  for (std::int32_t i = 0; i < kLayers; ++i) {
    switching.push_back(h3t::all_combinations()[random.below(h3t::kCombinations)]);
  }
  return switching;
}

TEST_CASE("one stage of one microbatch takes what H3T's simulation of the same switches takes") {
  const std::uint64_t seed = 20260501;
  INFO("seed " << seed);
  Random random(seed);
  // A node for each device: nobody shares a host link.
  const test::World world = switch_world(2, 1);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const h3t::StepInputs inputs = h3t::step_inputs(table, 2);
  REQUIRE(inputs.missing.empty());
  for (int i = 0; i < 300; ++i) {
    const h3t::Switching switching = random_switching(random);
    const Plan plan = h3t::plan_of(world.model, 2, inputs.operators, switching);
    INFO("case " << i << ": " << to_json(plan));
    REQUIRE(validate(plan, world.model, world.cluster).empty());
    REQUIRE(model.unpriced(plan).empty());
    const Prediction prediction = model.evaluate(plan);
    REQUIRE(prediction.missing_costs.empty());
    // Collectives are faster than the host link here: streams of their own.
    const auto step = h3t::SegmentSimulator(inputs.layers, h3t::Fabric::kNvlink).step(switching);
    REQUIRE(prediction.iteration_ms == Approx(static_cast<double>(step.runtime) * 1e-6).epsilon(1e-9));
    REQUIRE(prediction.stages[0].memory_bytes >= step.peak);
  }
}

Plan piped_plan(const test::World& world, const h3t::Switching& switching) {
  Plan plan = h3t::plan_of(world.model, 2, h3t::layers_of(world.model), switching);
  plan.microbatch = 2;
  Segment first = plan.stages[0].segments[0];
  Segment second = first;
  first.operators = {0, 2};
  second.operators = {2, 4};
  const auto keep = [](Segment& segment) {
    Switches& of = segment.switches;
    for (std::vector<Range>* const ranges :
         {&segment.recompute, &of.offload_hidden, &of.partition_parameters, &of.lazy_prefetch, &of.economical_forward,
          &of.economical_backward, &of.segment_sync}) {
      if (!ranges->empty()) *ranges = {segment.operators};
    }
  };
  keep(first);
  keep(second);
  plan.stages = {{{0, 1}, {first}}, {{2, 3}, {second}}};
  return plan;
}

TEST_CASE("devices of one node share its host link and its host memory") {
  const h3t::Switching all_on(kLayers, h3t::kAllOn);
  test::World apart = switch_world(4, 1);
  test::World together = switch_world(1, 4);
  const CostTable apart_table = apart.table();
  const CostTable together_table = together.table();
  const Prediction alone = NativeCostModel(apart_table).evaluate(piped_plan(apart, all_on));
  const Prediction shared = NativeCostModel(together_table).evaluate(piped_plan(together, all_on));
  REQUIRE(alone.missing_costs.empty());
  REQUIRE(shared.missing_costs.empty());
  CHECK(shared.iteration_ms > alone.iteration_ms);
  CHECK(shared.feasible);
  together.cluster.nodes[0].host_memory_bytes = 4000;
  const CostTable full = together.table();
  const Prediction over = NativeCostModel(full).evaluate(piped_plan(together, all_on));
  CHECK_FALSE(over.feasible);
  CHECK_THAT(over.infeasible_reason, Catch::Contains("host memory: a rank needs"));
}

TEST_CASE("the evaluator prices a plan with memory switches as the cost model does, and gives it back") {
  const std::uint64_t seed = 20260502;
  INFO("seed " << seed);
  Random random(seed);
  const test::World world = switch_world(2, 2);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  for (int i = 0; i < 96; ++i) {
    const Plan plan = piped_plan(world, h3t::Switching(kLayers, h3t::all_combinations()[i]));
    INFO("case " << i << ": " << to_json(plan));
    REQUIRE(validate(plan, world.model, world.cluster).empty());
    const std::optional<Candidate> candidate = candidate_of(plan, space);
    REQUIRE(candidate);
    CHECK(evaluator->price(*candidate).ms == Approx(model.evaluate(plan).iteration_ms).epsilon(1e-12));
    CHECK(semantic_hash(evaluator->plan(*candidate)) == semantic_hash(plan));
  }
}

// Costs of two tensor-parallel ranks, and what moves where layers of different splits meet.
void add_tensor_ranks(test::World& world) {
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    CostKey key = cost.key;
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    if (key.kind == CostKind::kCollective && key.subject == "all_gather") {
      key.subject = "all_to_all";
      world.costs.push_back(test::exact_cost(key, value));
    }
    if (key.samples == 0 || key.tp != 1) continue;
    key.tp = 2;
    world.costs.push_back(test::exact_cost(key, value / 2));
  }
  for (Operator& op : world.model.operators) op.tensor_all_reduces = 1;
}

// One stage of two replicas, its first layers of two tensor-parallel ranks each where `split_at` is above 0.
Plan split_plan(const test::World& world, const h3t::Switching& switching, std::int32_t split_at) {
  Plan plan = h3t::plan_of(world.model, 2, h3t::layers_of(world.model), switching);
  plan.microbatch = 4;
  if (split_at == 0) return plan;
  const Segment whole = plan.stages[0].segments[0];
  const auto part = [&](const Range& operators) {
    Segment segment = whole;
    segment.operators = operators;
    segment.switches = switches_inside(whole.switches, operators);
    Switches as_list;
    as_list.offload_hidden = whole.recompute;
    segment.recompute = switches_inside(as_list, operators).offload_hidden;
    return segment;
  };
  Segment first = part({0, split_at});
  first.dp = 1;
  first.tp = 2;
  first.sharded = ShardedLevel::kNone;
  plan.stages[0].segments = {first, part({split_at, kLayers})};
  return plan;
}

TEST_CASE("layers of a stage with memory switches may be split differently, priced as they are") {
  const std::uint64_t seed = 20260503;
  INFO("seed " << seed);
  Random random(seed);
  test::World world = switch_world(1, 2);
  add_tensor_ranks(world);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  for (int i = 0; i < 60; ++i) {
    const h3t::Switching switching = random_switching(random);
    const Plan plan = split_plan(world, switching, static_cast<std::int32_t>(random.between(1, kLayers - 1)));
    INFO("case " << i << ": " << to_json(plan));
    REQUIRE(validate(plan, world.model, world.cluster).empty());
    const Prediction prediction = model.evaluate(plan);
    REQUIRE(prediction.missing_costs.empty());
    const std::optional<Candidate> candidate = candidate_of(plan, space);
    REQUIRE(candidate);
    CHECK(evaluator->price(*candidate).ms == Approx(prediction.iteration_ms).epsilon(1e-12));
    CHECK(semantic_hash(evaluator->plan(*candidate)) == semantic_hash(plan));
  }
}

TEST_CASE("a change of layout between layers with memory switches takes its time in both passes") {
  test::World world = switch_world(1, 2);
  add_tensor_ranks(world);
  const h3t::Switching off(kLayers, h3t::LayerSwitches{});
  const auto priced = [&](double slower) {
    test::World of = world;
    for (Cost& cost : of.costs) {
      // Gathers of samples, and of nothing else: one of two replicas has those alone.
      if (cost.key.kind != CostKind::kCollective || cost.key.subject != "all_gather") continue;
      cost = test::exact_cost(cost.key, static_cast<std::int64_t>(slower * cost.statistics.mean()));
    }
    for (Operator& op : of.model.operators) op.parameter_bytes = 0;
    return NativeCostModel(of.table()).evaluate(split_plan(of, off, 2)).iteration_ms;
  };
  const CostTable table = world.table();
  // Two microbatches; the tensor-parallel layers come first, so samples are gathered on the way back.
  const double once = table.tables().links.collective(Primitive::kAllGather, 2000, 2, Placement::kIntraNode).mean;
  CHECK(priced(3) - priced(1) == Approx(2 * 2 * once).epsilon(1e-6));
}

TEST_CASE("a stage with memory switches has the host memory of its own node") {
  test::World world = switch_world(3, 2);
  world.cluster.nodes[0].host_memory_bytes = world.cluster.nodes[2].host_memory_bytes = 1 << 20;
  world.cluster.nodes[1].host_memory_bytes = 2000;
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
  NativeEvaluator evaluator(model, space);
  CandidateStage stage = replicated_stage(kLayers, 2);
  stage.split.sharded = ShardedLevel::kGradients;
  const std::vector<Range> layers{{kLayers - 2, kLayers - 1}, {kLayers - 1, kLayers}};
  stage.switches = h3t::plan_switches(layers, {h3t::kAllOn, h3t::kAllOn});
  stage.recompute = h3t::rematerialized(layers, {h3t::kAllOn, h3t::kAllOn});
  const auto excess_on = [&](std::int32_t first_device) {
    const StagePrice& price = evaluator.stage_alone(stage, kLayers - 2, first_device, 2, 1);
    REQUIRE(price.priced);
    return price.excess_bytes;
  };
  CHECK(excess_on(0) == 0);
  CHECK(excess_on(2) > 0);
  CHECK(excess_on(4) == 0);
}

TEST_CASE("every plan of a search fits where one node has less host memory") {
  test::World world = switch_world(4, 2);
  for (Node& node : world.cluster.nodes) node.host_memory_bytes = 1 << 20;
  world.cluster.nodes[1].host_memory_bytes = 3000;
  int switched = 0;
  for (const Bytes memory : {12000, 16000, 20000, 30000}) {
    for (Node& node : world.cluster.nodes) node.memory_bytes = memory;
    const NativeCostModel model(world.table(true));
    SearchOptions options;
    options.remedies = false;
    options.strategy = "unified";
    options.space = "all";
    options.max_evaluations = 30000;
    const SearchOutcome outcome = search(model, Knobs{}, options).value();
    INFO("memory " << memory << ", " << outcome.infeasible);
    for (const RankedPlan& of : outcome.result.plans) {
      CHECK(of.prediction.feasible);
      for (const Stage& stage : of.plan.stages) switched += has_switches(stage.segments.front().switches) ? 1 : 0;
    }
  }
  CHECK(switched > 0);
}

TEST_CASE("a stage with memory switches keeps what the allocator reserves and the process takes") {
  test::World world = switch_world(1, 1);
  const auto bytes_with = [&world](std::int64_t forward, std::int64_t backward, std::int64_t process) {
    test::World of = world;
    std::erase_if(of.costs, [](const Cost& cost) { return cost.key.kind == CostKind::kOperatorWorkingBytes; });
    for (Cost& cost : of.costs) {
      if (cost.key.kind == CostKind::kProcessBytes) cost = test::exact_cost(cost.key, process);
    }
    for (const std::int32_t samples : {1, 2, 4, 8}) {
      const auto reserve = [&](CostKind kind, std::int64_t bytes) {
        of.costs.push_back(test::exact_cost(test::operator_key(kind, "layer", samples), bytes));
      };
      reserve(CostKind::kOperatorForwardReserveBytes, forward);
      reserve(CostKind::kOperatorBackwardReserveBytes, backward);
    }
    const h3t::Switching off(kLayers, h3t::LayerSwitches{});
    const Plan plan = h3t::plan_of(of.model, 1, h3t::layers_of(of.model), off);
    const Prediction prediction = NativeCostModel(of.table()).evaluate(plan);
    REQUIRE(prediction.missing_costs.empty());
    return prediction.stages[0].memory_bytes;
  };
  const Bytes plain = bytes_with(0, 0, 0);
  CHECK(bytes_with(700, 300, 0) == plain + 1000);
  CHECK(bytes_with(700, 300, 50000) == plain + 51000);
}

// Of the last two layers on the first two devices: time of a whole step and memory.
struct SwitchedPrice {
  double ms = 0;
  double bytes = 0;
};

SwitchedPrice price_of(NativeEvaluator& evaluator, const CandidateStage& stage, std::int32_t held) {
  constexpr std::int32_t kMicrobatch = 2;
  const StagePrice& price = evaluator.stage_alone(stage, kLayers - 2, 0, kMicrobatch, held);
  REQUIRE(price.priced);
  const double passes = price.forward + price.backward + price.recompute + price.communication;
  return {evaluator.model().global_batch / kMicrobatch * passes + price.optimizer, price.memory_bytes};
}

TEST_CASE("a stage's chosen switches are within 1 % of the best, natively priced") {
  test::World world = switch_world(1, 2);
  const std::vector<Range> layers{{kLayers - 2, kLayers - 1}, {kLayers - 1, kLayers}};
  for (const std::int32_t held : {1, 3}) {
    for (const double share : {0.0, 0.3, 0.7}) {
      INFO("in flight " << held << ", share " << share);
      world.cluster.nodes[0].memory_bytes = 0;
      std::vector<SwitchedPrice> all;
      {
        const CostTable table = world.table();
        const NativeCostModel model(table);
        const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
        NativeEvaluator evaluator(model, space);
        for (const h3t::LayerSwitches& first : h3t::synchronized_combinations()) {
          for (const h3t::LayerSwitches& second : h3t::synchronized_combinations()) {
            CandidateStage stage = replicated_stage(kLayers, 2);
            stage.split.sharded = ShardedLevel::kGradients;
            stage.switches = h3t::plan_switches(layers, {first, second});
            stage.recompute = h3t::rematerialized(layers, {first, second});
            all.push_back(price_of(evaluator, stage, held));
          }
        }
      }
      const auto [least, most] = std::minmax_element(
          all.begin(), all.end(), [](const SwitchedPrice& a, const SwitchedPrice& b) { return a.bytes < b.bytes; });
      const double limit = std::ceil(least->bytes + share * (most->bytes - least->bytes));
      double best = std::numeric_limits<double>::infinity();
      for (const SwitchedPrice& one : all) {
        if (one.bytes <= limit) best = std::min(best, one.ms);
      }
      world.cluster.nodes[0].memory_bytes = static_cast<Bytes>(limit);
      const CostTable table = world.table();
      const NativeCostModel model(table);
      const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
      NativeEvaluator evaluator(model, space);
      const std::optional<CandidateStage> chosen =
          evaluator.with_best_switches(replicated_stage(kLayers, 2), kLayers - 2, 0, 2, held);
      REQUIRE(chosen);
      const SwitchedPrice price = price_of(evaluator, *chosen, held);
      CHECK(price.bytes <= limit);
      CHECK(price.ms >= best * (1 - 1e-12));
      CHECK(price.ms <= best * 1.01);
    }
  }
}

TEST_CASE("choosing a stage's switches counts in the budget of evaluations, once") {
  const test::World world = switch_world(1, 2);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
  NativeEvaluator evaluator(model, space);
  const auto choose = [&](std::int32_t held) {
    const std::uint64_t before = evaluator.evaluations();
    REQUIRE(evaluator.with_best_switches(replicated_stage(kLayers, 2), 0, 0, 2, held));
    return evaluator.evaluations() - before;
  };
  const std::uint64_t first = choose(1);
  // A path, and each combination of a layer between neighbours: the first, the inner and the last one.
  CHECK(first >= 3 * h3t::kSynchronizedCombinations + 1);
  CHECK(choose(1) == 0);
  const std::uint64_t more_held = choose(2);
  CHECK(more_held >= 1);
  CHECK(more_held < first);
}

TEST_CASE("a job that shards nothing gets no switches among replicas") {
  const test::World world = switch_world(1, 2);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  for (const bool sharded : {false, true}) {
    Knobs knobs;
    knobs.memory_switches = true;
    knobs.sharded = sharded;
    const PlanSpace space = named_space("job", world.model, world.cluster, knobs, 2).value();
    NativeEvaluator evaluator(model, space);
    const CandidateStage replicas = replicated_stage(kLayers, 2);
    CHECK(evaluator.with_best_switches(replicas, kLayers - 2, 0, 2, 1).has_value() == sharded);
    const CandidateStage alone = replicated_stage(kLayers, 1);
    CHECK(evaluator.with_best_switches(alone, kLayers - 2, 0, 2, 1).has_value());
  }
}

TEST_CASE("collectives share the host's link where they are no faster than it") {
  const h3t::Switching all_on(kLayers, h3t::kAllOn);
  test::World world = switch_world(1, 2);
  const auto step_with = [&](double collectives) {
    test::World of = world;
    for (Cost& cost : of.costs) {
      if (cost.key.kind != CostKind::kCollective) continue;
      const double value = collectives * static_cast<double>(cost.key.bytes);
      cost = test::exact_cost(cost.key, static_cast<std::int64_t>(value));
    }
    const CostTable table = of.table();
    const NativeCostModel model(table);
    const h3t::StepInputs inputs = h3t::step_inputs(table, 2);
    const Plan plan = h3t::plan_of(of.model, 2, inputs.operators, all_on);
    std::vector<h3t::LayerProfile> layers = inputs.layers;
    // Copies of both devices at the same time.
    for (h3t::LayerProfile& layer : layers) {
      for (auto copy : {&h3t::LayerProfile::prefetch_hidden, &h3t::LayerProfile::offload_hidden,
                        &h3t::LayerProfile::prefetch_parameters, &h3t::LayerProfile::offload_gradients}) {
        if (layer.*copy > 0) layer.*copy = 2 * (layer.*copy - 5000) + 5000;
      }
    }
    const auto simulated = [&](h3t::Fabric fabric) {
      return static_cast<double>(h3t::SegmentSimulator(layers, fabric).step(all_on).runtime) * 1e-6;
    };
    return std::array<double, 3>{model.evaluate(plan).iteration_ms, simulated(h3t::Fabric::kNvlink),
                                 simulated(h3t::Fabric::kPcie)};
  };
  // A copy takes 300 ns a byte. A device gives half of the gathered bytes and receives as many.
  const auto [fast, fast_apart, fast_together] = step_with(100);
  CHECK(fast == Approx(fast_apart).epsilon(1e-9));
  const auto [slow, slow_apart, slow_together] = step_with(400);
  CHECK(slow == Approx(slow_together).epsilon(1e-9));
  CHECK(slow_apart != slow_together);
}

TEST_CASE("switches hold more activations for more microbatches in flight, and less than without") {
  const test::World world = switch_world(2, 2);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const Prediction on = model.evaluate(piped_plan(world, h3t::Switching(kLayers, h3t::kAllOn)));
  h3t::LayerSwitches off;
  const Prediction kept = model.evaluate(piped_plan(world, h3t::Switching(kLayers, off)));
  CHECK(on.stages[0].memory_bytes < kept.stages[0].memory_bytes);
  CHECK(kept.stages[0].memory.activations > kept.stages[1].memory.activations);
  CHECK(on.iteration_ms > kept.iteration_ms);
}

TEST_CASE("plans whose memory switches nothing can run are refused, each by its reason") {
  const test::World world = switch_world(2, 2);
  const auto broken = [&](auto&& change) {
    Plan plan = piped_plan(world, h3t::Switching(kLayers, h3t::kAllOn));
    change(plan.stages[0].segments[0], plan);
    const std::vector<std::string> rules = validate(plan, world.model, world.cluster);
    return rules.empty() ? std::string() : rules.front();
  };
  CHECK_THAT(broken([](Segment& segment, Plan&) { segment.switches.offload_optimizer = false; }),
             Catch::Contains("offload_optimizer: must be true"));
  CHECK_THAT(broken([](Segment& segment, Plan&) { segment.sharded = ShardedLevel::kNone; }),
             Catch::Contains("sharded: must be gradients over all replicas"));
  CHECK_THAT(broken([](Segment& segment, Plan& plan) {
               Segment second = segment;
               segment.operators.end = second.operators.begin = 1;
               segment.switches = switches_inside(segment.switches, segment.operators);
               second.switches = switches_inside(second.switches, second.operators);
               segment.recompute = {segment.operators};
               second.recompute = {second.operators};
               second.switches.offload_optimizer = false;
               plan.stages[0].segments.push_back(second);
             }),
             Catch::Contains("segments[1].switches.offload_optimizer: must be true in all segments"));
  CHECK_THAT(broken([](Segment& segment, Plan&) { segment.recompute.clear(); }),
             Catch::Contains("offload_hidden: needs recompute of operator 0"));
  CHECK_THAT(broken([](Segment&, Plan& plan) {
               plan.microbatch = 4;
               plan.schedule.sliced_microbatches = 1;
             }),
             Catch::Contains("must run whole microbatches where memory switches are on"));
}

}  // namespace
}  // namespace trimtab::tuner
