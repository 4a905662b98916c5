// What two sub-batches hold at once: against the two streams played through, every recompute followed from its begin to
// the end of its block's backward.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../world.hpp"
#include "base/random.hpp"
#include "native/stage/recompute_choice.hpp"
#include "native/stage/sub_batch_stage.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {
namespace {

// Bytes of recompute that are live at once, from spans: what a block's recompute allocates when it begins is gone when
// the backward of the same block and sub-batch has ended.
double most_live(const std::vector<Round>& rounds, const std::vector<double>& bytes) {
  const StreamActions of = stream_actions(rounds);
  std::vector<StreamSpan> spans(of.actions.size());
  run_two_streams(of.actions, {}, spans);
  struct Change {
    double at, bytes;
  };
  std::vector<Change> changes;
  for (std::size_t a = 0; a < of.actions.size(); ++a) {
    if (of.actions[a].communication || of.origins[a].sub_batch < 0) continue;
    const Round& round = rounds[static_cast<std::size_t>(of.origins[a].round)];
    const double block = bytes[static_cast<std::size_t>(round.block)];
    if (round.recompute > 0) changes.push_back({spans[a].begin, block});
    if (round.pass == RoundPass::kBackward && block > 0) changes.push_back({spans[a].end, -block});
  }
  // What ends at a moment is gone before what begins then.
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return std::pair(a.at, a.bytes) < std::pair(b.at, b.bytes); });
  double live = 0;
  double most = 0;
  for (const Change& change : changes) most = std::max(most, live += change.bytes);
  CHECK(live == Approx(0).margin(1e-6));
  return most;
}

TEST_CASE("recompute in sub-batches brings back what the streams say, in every schedule") {
  const std::uint64_t seed = 20261125;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 3000; ++i) {
    std::vector<Block> blocks;
    std::vector<double> bytes;
    for (std::int64_t n = random.between(1, 8); n > 0; --n) {
      Block block;
      block.forward = 0.5 + random.uniform();
      block.backward = 0.5 + random.uniform();
      block.forward_communication = random.uniform();
      block.backward_communication = random.uniform();
      const bool again = random.below(3) > 0;
      block.recompute = again ? block.forward : 0;
      block.begins_unit = !again || blocks.empty() || blocks.back().recompute <= 0 || random.below(2) == 0;
      blocks.push_back(block);
      bytes.push_back(again ? static_cast<double>(random.between(1, 1000)) : 0);
    }
    const SubBatchSchedule schedule{random.below(2) == 0, random.below(2) == 0};
    std::vector<Round> rounds;
    backward_rounds(blocks, schedule, rounds);
    INFO("case " << i << ", cross_pass " << schedule.cross_pass << ", after communication "
                 << schedule.recompute_after_communication);
    REQUIRE(recomputed_at_once(rounds, bytes) == Approx(most_live(rounds, bytes)));
  }
}

struct Case {
  test::World world;
  Plan plan;
};

// Layers on two tensor-parallel ranks, everything recomputed.
Case layers(std::int32_t count, Bytes stored, Bytes working) {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.stored_bytes = stored;
  truth.working_bytes = working;
  truth.output_bytes = 10;
  Case made{test::make_world(std::vector<test::OperatorTruth>(static_cast<std::size_t>(count), truth), 2, 8, {1, 8}),
            {}};
  for (Operator& op : made.world.model.operators) op.tensor_all_reduces = 1;
  test::add_links(made.world, 1000, 0);
  std::vector<Cost> on_two;
  for (Cost cost : made.world.costs) {
    if (cost.key.kind > CostKind::kOperatorWorkingBytes) continue;
    cost.key.tp = 2;
    on_two.push_back(cost);
  }
  made.world.costs.insert(made.world.costs.end(), on_two.begin(), on_two.end());
  made.plan = test::make_plan(made.world.model, 8, {count}, {2}, {{{0, count}}});
  Segment& segment = made.plan.stages[0].segments[0];
  segment.dp = 1;
  segment.tp = 2;
  return made;
}

StageMemory memory_of(const Case& of, const Plan& plan) {
  const CostTable table = of.world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(plan);
  REQUIRE(prediction.missing_costs.empty());
  return prediction.stages[0].memory;
}

TEST_CASE("of two sub-batches one works and is recomputed at a time") {
  const Case of = layers(6, 1000, 300);
  Plan plan = of.plan;
  const StageMemory whole = memory_of(of, plan);
  CHECK(whole.recompute_peak == 8 * 1000);
  CHECK(whole.working == 8 * 300);
  plan.schedule.sub_batches = 2;
  plan.schedule.cross_pass = plan.schedule.recompute_after_communication = true;
  const StageMemory halves = memory_of(of, plan);
  CHECK(halves.activations == whole.activations);
  CHECK(halves.recompute_peak == 4 * 1000);
  CHECK(halves.working == 4 * 300);
  // Recomputed as one unit with its communications: all but half of the last layer is there at once.
  plan.schedule.recompute_after_communication = false;
  CHECK(memory_of(of, plan).recompute_peak == 5 * 8 * 1000 + 4 * 1000);
  // Between barriers even that.
  plan.schedule.cross_pass = false;
  CHECK(memory_of(of, plan).recompute_peak == 6 * 8 * 1000);
}

TEST_CASE("what to recompute is chosen by what sub-batches hold") {
  const Case of = layers(6, 1000, 300);
  Plan plan = of.plan;
  plan.schedule.sub_batches = 2;
  plan.schedule.cross_pass = plan.schedule.recompute_after_communication = true;
  const Bytes needed = [&] {
    const CostTable table = of.world.table();
    return NativeCostModel(table).evaluate(plan).stages[0].memory_bytes;
  }();
  plan.schedule = {};
  const CostTable table = of.world.table();
  CHECK(NativeCostModel(table).evaluate(plan).stages[0].memory_bytes == needed + 4 * 1000 + 4 * 300);
}

}  // namespace
}  // namespace trimtab::tuner
