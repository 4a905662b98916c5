// A stage in two sub-batches: against two streams played through action by action, without slowdowns, and the plans
// that may have them.

#include <catch2/catch.hpp>
#include <functional>

#include "../world.hpp"
#include "base/random.hpp"
#include "native/stage/sub_batch_stage.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

// A stage of single operators on one split; half a microbatch and, doubled, the whole.
struct Stage {
  std::vector<OperatorPrice> half_prices, whole_prices;
  StageInputs half, whole;
  RecomputeFlags recompute;

  explicit Stage(std::vector<OperatorPrice> prices) : half_prices(std::move(prices)), whole_prices(half_prices) {
    for (OperatorPrice& price : whole_prices) {
      price.forward *= 2;
      price.backward *= 2;
    }
    for (std::size_t i = 0; i < half_prices.size(); ++i) {
      half.prices.push_back(&half_prices[i]);
      whole.prices.push_back(&whole_prices[i]);
    }
    half.operators = whole.operators = {0, static_cast<std::int32_t>(half_prices.size())};
    recompute.assign(half_prices.size(), 0);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
};

OperatorPrice operator_of(double forward, double backward, double reduce, std::int32_t reduces) {
  OperatorPrice price;
  price.forward = forward + reduces * reduce;
  price.backward = backward + reduces * reduce;
  price.reduce = reduce;
  price.reduces = reduces;
  return price;
}

// Two streams without slowdowns: for each action, when it can begin is when its stream is free and its sub-batch's last
// action has ended.
class Streams {
 public:
  void compute(int sub_batch, double ms) { run(computing_, sub_batch, ms); }
  void communicate(int sub_batch, double ms) {
    if (ms > 0) run(communicating_, sub_batch, ms);
  }
  [[nodiscard]] double end() const { return std::max({computing_, communicating_, ready_[0], ready_[1]}); }

 private:
  void run(double& stream, int sub_batch, double ms) {
    stream = ready_[sub_batch] = std::max(stream, ready_[sub_batch]) + ms;
  }
  double computing_ = 0;
  double communicating_ = 0;
  double ready_[2] = {0, 0};
};

// What lies between two all-reduces, by pass.
struct Piece {
  double forward = 0, backward = 0, again = 0, reduce = 0;
};

std::vector<Piece> pieces_of(const Stage& stage) {
  std::vector<Piece> pieces(1);
  for (std::size_t i = 0; i < stage.half_prices.size(); ++i) {
    const OperatorPrice& price = stage.half_prices[i];
    const int parts = std::max(1, price.reduces);
    for (int part = 0; part < parts; ++part) {
      const double forward = (price.forward - price.reduces * price.reduce) / parts;
      pieces.back().forward += forward;
      pieces.back().backward += (price.backward - price.reduces * price.reduce) / parts;
      pieces.back().again += stage.recompute[i] != 0 ? forward : 0;
      if (price.reduces == 0) continue;
      pieces.back().reduce = price.reduce;
      pieces.emplace_back();
    }
  }
  if (pieces.back().forward + pieces.back().backward <= 0 && pieces.size() > 1) pieces.pop_back();
  return pieces;
}

TEST_CASE("a stage in sub-batches takes what two streams take, action by action") {
  const std::uint64_t seed = 20260401;
  INFO("seed " << seed);
  Random random(seed);
  SubBatchStage priced;
  for (int i = 0; i < 3000; ++i) {
    std::vector<OperatorPrice> prices;
    const std::int64_t operators = random.between(1, 8);
    for (std::int64_t k = 0; k < operators; ++k) {
      prices.push_back(operator_of(0.1 + random.uniform(), 0.1 + 2 * random.uniform(), random.uniform() * 2,
                                   static_cast<std::int32_t>(random.below(3))));
    }
    Stage stage(std::move(prices));
    for (std::uint8_t& again : stage.recompute) again = random.below(2) == 0 ? 1 : 0;
    const StageTimes times = priced.times({}, stage.whole, stage.half, stage.recompute, {true, true});
    const std::vector<Piece> pieces = pieces_of(stage);
    Streams forward;
    for (const Piece& piece : pieces) {
      for (const int x : {0, 1}) {
        forward.compute(x, piece.forward);
        forward.communicate(x, piece.reduce);
      }
    }
    Streams backward;
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      for (const int x : {0, 1}) {
        backward.compute(x, piece->again + piece->backward);
        backward.communicate(x, piece->reduce);
      }
    }
    INFO("case " << i << ", " << operators << " operators");
    REQUIRE(times.forward_pass() == Approx(forward.end()));
    REQUIRE(times.backward_pass() == Approx(backward.end()));
    REQUIRE(times.last_backward == Approx(times.backward_pass()));
    // Whole microbatches wait for every all-reduce, and a barrier never helps.
    const StageTimes whole = stage_times({}, stage.whole, stage.recompute);
    REQUIRE(times.forward_pass() <= whole.forward_pass() * (1 + 1e-12));
    for (const bool after : {false, true}) {
      const StageTimes crossed = priced.times({}, stage.whole, stage.half, stage.recompute, {true, after});
      const StageTimes barred = priced.times({}, stage.whole, stage.half, stage.recompute, {false, after});
      REQUIRE(barred.backward_pass() >= crossed.backward_pass() * (1 - 1e-12));
    }
  }
}

TEST_CASE("gradients of replicas synchronize beside the rounds of the last backward pass") {
  OperatorPrice price = operator_of(1, 2, 0.5, 1);
  Stage stage({price, price});
  for (OperatorPrice& of : stage.whole_prices) of.last = 3;
  stage.whole.synchronizes = true;
  const StageTimes times = SubBatchStage().times({}, stage.whole, stage.half, stage.recompute, {});
  // Rounds of 4, an all-reduce of 0.5 left at the end of each pass; 3 ms of gradients after either block, one channel.
  CHECK(times.backward_pass() == Approx(8.5));
  CHECK(times.last_backward == Approx(8.5));
  CHECK(times.sync_end == Approx(8.5 + 3));
}

// Two operators of kind mlp on two ranks; all that their times have beyond computing is one all-reduce.
test::World tensor_world() {
  test::OperatorTruth truth;
  truth.cost_key = "mlp";
  truth.forward_ns = 10000000;
  truth.backward_ns = 20000000;
  truth.output_bytes = 1000;
  test::World world = test::make_world({truth, truth}, 2, 8, {1, 2, 4, 8});
  for (Operator& op : world.model.operators) op.kind = "mlp";
  test::add_links(world, 0, 4000000);  // 4 ms for a sample's output
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    if (cost.key.samples == 0) continue;
    CostKey key = cost.key;
    key.tp = 2;
    const bool time = key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward;
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    world.costs.push_back(test::exact_cost(key, time ? value / 2 + 4000000 * cost.key.samples : value / 2));
  }
  return world;
}

Plan tensor_plan(const test::World& world, const Schedule& schedule) {
  Plan plan = test::make_plan(world.model, 4, {2}, {2}, {{{0, 2}}});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  plan.schedule = schedule;
  return plan;
}

constexpr Schedule kOverlapped{ScheduleKind::k1F1B, Transfers::kBlocking, 0, 2, true, true};

TEST_CASE("a plan in sub-batches is priced by its computing and its all-reduces apart") {
  const test::World world = tensor_world();
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const Plan plan = tensor_plan(world, kOverlapped);
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  REQUIRE(model.unpriced(plan).empty());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  // Half a microbatch: forward 10, backward 20, all-reduce 8. Forward 10 + max(10, 8) * 2 + 10 + 8, backward with
  // recompute 30 * 4 + 8; two microbatches.
  CHECK(prediction.iteration_ms == Approx(2 * (48 + 128)));
  // Whole: 20 + 16 forward, again, and 40 + 16 backward, of two operators.
  CHECK(model.evaluate(tensor_plan(world, {})).iteration_ms == Approx(2 * 2 * (36 + 36 + 56)));
  CHECK(prediction.stages[0].exposed_communication_ms == Approx(16));
  // No slowdown has been measured for two ranks.
  REQUIRE(prediction.estimated_costs.size() == 1);
  CHECK_THAT(prediction.estimated_costs[0], Catch::Contains("overlap all_reduce over 2 ranks"));
}

TEST_CASE("what overlapping needs and nobody has measured is named") {
  test::World world = tensor_world();
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.kind == CostKind::kCollective; });
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(tensor_plan(world, kOverlapped));
  REQUIRE(prediction.missing_costs.size() == 1);
  CHECK_THAT(prediction.missing_costs[0], Catch::Contains("collective all_reduce of 2000 bytes over 2 ranks"));
  for (Operator& op : world.model.operators) {
    op.kind = "layer";
    op.parameter_bytes = 10;
  }
  const CostTable unknown = world.table(true);
  const Prediction flagged = NativeCostModel(unknown).evaluate(tensor_plan(world, kOverlapped));
  const bool said = std::any_of(flagged.estimated_costs.begin(), flagged.estimated_costs.end(), [](const auto& text) {
    return text.find("operator mlp: its all-reduces at tp=2 are not known apart") != std::string::npos;
  });
  CHECK(said);
}

TEST_CASE("plans that cannot run in sub-batches are refused, each by its reason") {
  const test::World world = tensor_world();
  const auto broken = [&](const std::function<void(Plan&)>& change) {
    Plan plan = tensor_plan(world, kOverlapped);
    change(plan);
    const std::vector<std::string> rules = validate(plan, world.model, world.cluster);
    return rules.empty() ? std::string() : rules.front();
  };
  CHECK_THAT(broken([](Plan& plan) { plan.microbatch = 1; }), Catch::Contains("found 2 and 1 samples in stages[0]"));
  CHECK_THAT(broken([](Plan& plan) {
               plan.stages[0].segments[0].dp = 2;
               plan.stages[0].segments[0].tp = 1;
             }),
             Catch::Equals(""));  // nothing to overlap, and no harm
  CHECK_THAT(broken([](Plan& plan) { plan.schedule.sub_batches = 1; }),
             Catch::Contains("schedule.cross_pass: needs sub_batches 2 or more"));
}

}  // namespace
}  // namespace trimtab::tuner
