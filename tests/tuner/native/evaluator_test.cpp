// The native evaluator: its price is evaluate()'s, for every kind of candidate, and it does not allocate.

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <new>

#include "allocations.hpp"
#include "pricing/evaluator.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace {

std::size_t allocation_count = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocation_count;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// What std::stable_sort asks for; its memory comes back to the delete below, too.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(size > 0 ? size : 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

std::size_t trimtab::tuner::test::allocations() {
  return allocation_count;
}

namespace trimtab::tuner {
namespace {

// Estimates for what no world measures: other ranks, other collectives.
test::World linked_world(Random& random) {
  test::World world = test::random_world(random, {8, 8, 2});
  for (Operator& op : world.model.operators) {
    if (random.below(2) == 0) op.shardings = {"default", "alternate"};
    if (random.below(4) > 0) op.tensor_all_reduces = static_cast<std::int32_t>(random.below(3));
  }
  // A node must not have too little memory for anything: prices are compared, not fits.
  Node& node = world.cluster.nodes[0];
  if (node.devices > 1 && random.below(2) == 0) {
    Node second = node;
    second.name = "n1";
    second.devices = node.devices / 2;
    node.devices -= second.devices;
    world.cluster.nodes.push_back(second);
  }
  world.cluster.links = {{"intra_node", std::nullopt, 1e6, 20}, {"inter_node", std::nullopt, 2e5, 100}};
  const auto last = static_cast<std::int32_t>(world.model.operators.size()) - 1;
  if (random.below(3) == 0) world.model.tied_parameters.push_back({{0, last}, 500});
  // Replicas wait for the slowest.
  const bool varies = random.below(2) == 0;
  for (Cost& cost : world.costs) {
    if (!varies || cost.key.kind > CostKind::kOperatorBackward) continue;
    cost.statistics.add(static_cast<std::int64_t>(cost.statistics.mean() * (1 + random.uniform())));
  }
  return world;
}

template <typename T>
const T& any_of(Random& random, const std::vector<T>& values) {
  return values[random.below(values.size())];
}

void split_at_random(Random& random, const PlanSpace& space, const Model& model, std::int32_t microbatch,
                     std::int32_t begin, CandidateStage& stage) {
  const std::vector<Split> splits = space.splits(model, microbatch, stage.devices);
  stage.split = any_of(random, splits);
  if (stage.split.sharded != ShardedLevel::kNone && stage.split.dp % 2 == 0) {
    stage.split.sharded_degree = random.below(2) == 0 ? 2 : 0;
  }
  if (stage.end - begin > 1 && random.below(2) == 0) {
    const auto middle = static_cast<std::int32_t>(random.between(begin + 1, stage.end - 1));
    stage.segments = {{middle, stage.split}, {stage.end, any_of(random, splits)}};
  }
  for (std::int32_t i = begin; i < stage.end; ++i) {
    if (model.operators[i].shardings.size() > 1 && random.below(3) == 0) stage.alternate.push_back({i, i + 1});
  }
  stage.alternate = normalized(std::move(stage.alternate));
  if (random.below(2) == 0) return;
  stage.recompute.emplace();
  for (std::int32_t i = begin; i < stage.end; ++i) {
    if (random.below(3) == 0) stage.recompute->push_back({i, i + 1});
  }
  stage.recompute = normalized(std::move(*stage.recompute));
}

// Nothing where the drawn count of stages has no split of the devices.
std::optional<Candidate> random_candidate(Random& random, const PlanSpace& space, const Model& model) {
  Candidate candidate;
  candidate.microbatch = any_of(random, space.microbatches);
  const auto stages = static_cast<std::int32_t>(random.between(space.stages_min, space.stages_max));
  const auto device_splits = space.device_splits(model, candidate.microbatch, stages, 50);
  if (device_splits.empty()) return std::nullopt;
  std::vector<std::int32_t> ends = even_cuts(model, stages);
  ends.push_back(space.operators);
  std::int32_t begin = 0;
  const std::vector<std::int32_t>& devices = any_of(random, device_splits);
  for (std::int32_t s = 0; s < stages; ++s) {
    CandidateStage stage;
    stage.end = ends[s];
    stage.devices = devices[s];
    split_at_random(random, space, model, candidate.microbatch, begin, stage);
    candidate.stages.push_back(stage);
    begin = stage.end;
  }
  if (random.below(2) == 0) candidate.sub_batches = any_of(random, space.sub_batches);
  return candidate;
}

// Each class of communication by its own.
Calibration unequal(Random& random) {
  Calibration calibration;
  calibration.computation.value = 0.7 + 0.6 * random.uniform();
  calibration.communication.value = 0.7 + 0.6 * random.uniform();
  for (Factor& factor : calibration.classes) factor.value = 0.5 + random.uniform();
  calibration.overlap.value = 0.5 + random.uniform();
  calibration.bubble.value = 0.7 + 0.6 * random.uniform();
  return calibration;
}

TEST_CASE("the evaluator's price is the cost model's, for every kind of candidate") {
  const std::uint64_t seed = 4242;
  INFO("seed " << seed);
  Random random(seed);
  int priced = 0;
  for (int i = 0; i < 400; ++i) {
    const test::World world = linked_world(random);
    const NativeCostModel model(world.table(true), i % 2 == 0 ? Calibration{} : unequal(random));
    const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
    for (int k = 0; k < 10; ++k) {
      const std::optional<Candidate> candidate = random_candidate(random, space, world.model);
      if (!candidate) continue;
      const Score score = evaluator->price(*candidate);
      const Plan plan = evaluator->plan(*candidate);
      INFO("world " << i << ", candidate " << k << "\n" << to_json(plan));
      REQUIRE(validate(plan, world.model, world.cluster).empty());
      REQUIRE(model.unpriced(plan).empty());
      const Prediction prediction = model.evaluate(plan);
      REQUIRE(score.priced == prediction.missing_costs.empty());
      if (!score.priced) continue;
      ++priced;
      REQUIRE(score.ms == Approx(prediction.iteration_ms).epsilon(1e-12));
      REQUIRE((score.excess_bytes <= 0) == prediction.feasible);
      // A stage by itself is priced in the sub-batches that are spelled out, or whole.
      Candidate spelled = *candidate;
      const Schedule& schedule = plan.schedule;
      spelled.sub_batches = {schedule.sub_batches, schedule.cross_pass, schedule.recompute_after_communication};
      for (std::size_t s = 0; s < candidate->stages.size(); ++s) {
        const StagePrice& stage = evaluator->stage(spelled, s);
        REQUIRE(stage.memory_bytes == Approx(static_cast<double>(prediction.stages[s].memory_bytes)).margin(1));
        // The mean of a sliced stage has halves in it.
        if (plan.schedule.sliced_microbatches == 0) {
          REQUIRE(stage.forward == Approx(prediction.stages[s].forward_ms));
        }
        const StagePrediction& of = prediction.stages[s];
        const double sum =
            plan.microbatches() * (of.forward_ms + of.backward_ms + of.recompute_ms + of.exposed_communication_ms) +
            of.gradient_sync_ms + of.optimizer_ms + of.bubble_ms;
        REQUIRE(sum == Approx(prediction.iteration_ms).epsilon(1e-9));
        REQUIRE(of.terms.total_ms() == Approx(prediction.iteration_ms).epsilon(1e-9));
      }
      std::optional<Candidate> again = candidate_of(plan, space);
      REQUIRE(again);
      again->sub_batches = spelled.sub_batches;
      if (candidate->sub_batches) REQUIRE(evaluator->price(spelled).ms == score.ms);
      for (std::size_t s = 0; s < again->stages.size(); ++s) {
        again->stages[s].recompute = evaluator->stage(spelled, s).recompute_ranges;
      }
      REQUIRE(evaluator->price(*again).ms == score.ms);
    }
  }
  CHECK(priced > 1500);
}

TEST_CASE("communication shares are the step's derivative by the factor of communication, whatever the splits") {
  const std::uint64_t seed = 99;
  INFO("seed " << seed);
  Random random(seed);
  std::array<int, kCommunicationClasses> used{};
  int agreed = 0;
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    const test::World world = linked_world(random);
    const CostTable table = world.table(true);
    const NativeCostModel model(table);
    const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
    const std::optional<Candidate> candidate = random_candidate(random, space, world.model);
    if (!candidate || !evaluator->price(*candidate).priced) continue;
    const Plan plan = evaluator->plan(*candidate);
    const Prediction prediction = model.evaluate(plan);
    // Of equal paths of different make-up the share is one's: between the slopes on either side.
    const auto is_slope = [&](double share, const std::function<void(Calibration&, double)>& change) {
      const auto slope = [&](double step) {
        Calibration changed;
        change(changed, step);
        return (NativeCostModel(table, changed).evaluate(plan).iteration_ms - prediction.iteration_ms) / step;
      };
      const auto [least, most] = std::minmax({slope(-1e-6), slope(1e-6)});
      return share >= least * 0.99 - 1e-2 && share <= most * 1.01 + 1e-2;
    };
    ++compared;
    if (is_slope(prediction.communication_share_ms,
                 [](Calibration& all, double step) { all.communication.value = 1 + step; })) {
      ++agreed;
    }
    const CommunicationShares& of = prediction.communication_shares;
    const std::array<double, kCommunicationClasses> shares{of.collectives, of.gradients, of.transfers};
    for (std::size_t c = 0; c < shares.size(); ++c) {
      INFO("class " << c << ", plan " << to_json(plan));
      used[c] += shares[c] > 1e-3 ? 1 : 0;
      CHECK(is_slope(shares[c], [c](Calibration& all, double step) { all.classes[c].value = 1 + step; }));
    }
  }
  CHECK(compared > 100);
  CHECK(agreed == compared);
  for (const int count : used) CHECK(count > 10);
}

TEST_CASE("a price allocates nothing once everything has been seen") {
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    const test::World world = linked_world(random);
    const NativeCostModel model(world.table(true));
    const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
    std::vector<Candidate> candidates;
    for (int k = 0; k < 8; ++k) {
      if (const auto candidate = random_candidate(random, space, world.model)) candidates.push_back(*candidate);
    }
    for (int round = 0; round < 2; ++round) {
      for (const Candidate& candidate : candidates) {
        (void)evaluator->price(candidate);
        for (std::size_t s = 0; s < candidate.stages.size(); ++s) (void)evaluator->stage(candidate, s);
      }
    }
    const std::size_t before = test::allocations();
    for (const Candidate& candidate : candidates) {
      (void)evaluator->price(candidate);
      for (std::size_t s = 0; s < candidate.stages.size(); ++s) (void)evaluator->stage(candidate, s);
    }
    CHECK(test::allocations() == before);
  }
}

TEST_CASE("a cluster of 16,384 devices is priced from its links") {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.parameter_bytes = 1 << 20;
  truth.output_bytes = 1 << 16;
  test::World world = test::make_world(std::vector<test::OperatorTruth>(64, truth), 8, 1 << 14, {1, 2, 4, 8});
  const Node node = world.cluster.nodes[0];
  for (int n = 1; n < 2048; ++n) {
    world.cluster.nodes.push_back(node);
    world.cluster.nodes.back().name = "n" + std::to_string(n);
  }
  world.cluster.links = {{"intra_node", std::nullopt, 2e11, 5}, {"inter_node", std::nullopt, 2e10, 10}};
  const NativeCostModel model(world.table(true));
  const Plan plan = test::make_plan(world.model, 1 << 13, {32, 64}, {1 << 13, 1 << 13});
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.iteration_ms > 2 * 64 * 3.0 / 2);
}

}  // namespace
}  // namespace trimtab::tuner
