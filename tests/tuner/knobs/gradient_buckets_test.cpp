// Gradients reduced in buckets and parameters gathered during the next forward, against a list of events.

#include "native/stage/operator_price.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "../world.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;
constexpr std::int64_t kLatency = 300000;  // ns
constexpr std::int64_t kPerByte = 1000;    // ns

// What any collective takes for `bytes` of its own measure.
double collective_ms(double bytes) {
  return bytes > 0 ? (kLatency + kPerByte * bytes) * kMsPerNs : 0;
}

test::World world_of(const std::vector<test::OperatorTruth>& operators, std::int32_t devices) {
  test::World world = test::make_world(operators, devices, 8, {1, 2, 4, 8});
  for (const std::int64_t bytes : {1, 1000000}) {
    world.costs.push_back(test::exact_cost(test::link_key(CostKind::kPointToPoint, bytes), 0));
    for (std::int32_t group = 2; group <= devices; ++group) {
      for (const char* const primitive : {"all_reduce", "reduce_scatter", "all_gather"}) {
        CostKey key = test::link_key(CostKind::kCollective, bytes, group);
        key.subject = primitive;
        world.costs.push_back(test::exact_cost(key, kLatency + kPerByte * bytes));
      }
    }
  }
  return world;
}

std::vector<test::OperatorTruth> random_operators(Random& random) {
  std::vector<test::OperatorTruth> operators;
  const std::uint64_t count = 2 + random.below(7);
  for (std::uint64_t i = 0; i < count; ++i) {
    test::OperatorTruth of;
    of.cost_key = "o" + std::to_string(i);
    of.forward_ns = random.between(100000, 2000000);
    of.backward_ns = random.between(100000, 4000000);
    // A multiple of the replicas, so that shards are whole bytes.
    of.parameter_bytes = i > 0 && random.below(4) == 0 ? 0 : 8 * random.between(1, 400);
    of.optimizer_ns = of.parameter_bytes > 0 ? random.between(0, 500000) : 0;
    operators.push_back(of);
  }
  return operators;
}

// A device that computes and its one channel, through whole steps of one stage.
class EventList {
 public:
  EventList(const std::vector<test::OperatorTruth>& operators, double bucket_bytes, std::int32_t dp, ShardedLevel level)
      : operators_(operators), dp_(dp), level_(level) {
    std::vector<std::size_t> open;
    double bytes = 0;
    for (std::size_t i = operators.size(); i-- > 0;) {
      if (operators[i].parameter_bytes == 0) continue;
      open.push_back(i);
      bytes += static_cast<double>(operators[i].parameter_bytes);
      if (bytes >= bucket_bytes) close(open, bytes);
    }
    if (!open.empty()) close(open, bytes);
  }

  // `ahead`: the parameters of the step before arrive while this one computes.
  double step(double samples, int microbatches, bool ahead) {
    for (int k = 0; k < microbatches; ++k) {
      forward(samples, ahead && k == 0);
      const bool last = k + 1 == microbatches;
      backward(samples, last || level_ == ShardedLevel::kGradients);
    }
    const double shards = level_ == ShardedLevel::kNone ? 1 : dp_;
    for (const test::OperatorTruth& of : operators_) now_ += static_cast<double>(of.optimizer_ns) * kMsPerNs / shards;
    for (const Bucket& bucket : buckets_) {
      if (!ahead && level_ != ShardedLevel::kNone) now_ += collective_ms(bucket.bytes / dp_);
    }
    return now_;
  }

 private:
  struct Bucket {
    std::vector<std::size_t> operators;  // last first
    double bytes;
  };

  void close(std::vector<std::size_t>& open, double& bytes) {
    buckets_.push_back({open, bytes});
    open.clear();
    bytes = 0;
  }

  void forward(double samples, bool gathers) {
    std::size_t wanted = buckets_.size();  // the one that is on its way, in the order of sending, next to last
    double arrival = now_;
    if (gathers && wanted > 0) arrival += collective_ms(buckets_[wanted - 1].bytes / dp_);
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      if (gathers && wanted > 0 && buckets_[wanted - 1].operators.back() == i) {
        now_ = std::max(now_, arrival);
        --wanted;
        if (wanted > 0) arrival = now_ + collective_ms(buckets_[wanted - 1].bytes / dp_);
      }
      now_ += samples * static_cast<double>(operators_[i].forward_ns) * kMsPerNs;
    }
  }

  void backward(double samples, bool sends) {
    double channel = now_;
    std::size_t next = 0;
    for (std::size_t i = operators_.size(); i-- > 0;) {
      now_ += samples * static_cast<double>(operators_[i].backward_ns) * kMsPerNs;
      if (!sends || next == buckets_.size() || buckets_[next].operators.back() != i) continue;
      channel = std::max(channel, now_) + collective_ms(buckets_[next++].bytes);
    }
    now_ = std::max(now_, channel);
  }

  const std::vector<test::OperatorTruth>& operators_;
  std::int32_t dp_;
  ShardedLevel level_;
  std::vector<Bucket> buckets_;
  double now_ = 0;
};

Plan bucketed(const test::World& world, std::int32_t dp, ShardedLevel level, std::int64_t bytes, bool ahead) {
  const auto operators = static_cast<std::int32_t>(world.model.operators.size());
  Plan plan = test::make_plan(world.model, 4, {operators}, {dp});
  plan.stages[0].segments[0].sharded = level;
  plan.target_knobs["bucket_bytes"] = std::to_string(bytes);
  if (ahead) plan.target_knobs["overlap_parameter_gather"] = "true";
  return plan;
}

TEST_CASE("a step with buckets takes what a list of its events takes") {
  const std::uint64_t seed = 20261121;
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::vector<test::OperatorTruth> operators = random_operators(random);
    const std::int32_t dp = random.below(2) == 0 ? 2 : 4;
    const test::World world = world_of(operators, dp);
    const auto level = static_cast<ShardedLevel>(random.below(3));
    const bool ahead = level != ShardedLevel::kNone && random.below(2) == 0;
    const std::int64_t bytes = random.between(1, 6000);
    const Plan plan = bucketed(world, dp, level, bytes, ahead);
    INFO("seed " << seed << ", round " << round);
    REQUIRE(validate(plan, world.model, world.cluster).empty());
    const NativeCostModel model(world.table());
    REQUIRE(model.unpriced(plan).empty());
    const Prediction prediction = model.evaluate(plan);
    REQUIRE(prediction.missing_costs.empty());
    EventList events(operators, static_cast<double>(bytes), dp, level);
    REQUIRE(prediction.iteration_ms == Approx(events.step(4.0 / dp, 2, ahead)).epsilon(1e-9));
    const StagePrediction& stage = prediction.stages[0];
    const double each = stage.forward_ms + stage.backward_ms + stage.recompute_ms + stage.exposed_communication_ms;
    REQUIRE(2 * each + stage.gradient_sync_ms + stage.optimizer_ms == Approx(prediction.iteration_ms));
  }
}

test::OperatorTruth truth(Bytes parameters) {
  test::OperatorTruth of;
  of.cost_key = "a";
  of.parameter_bytes = parameters;
  return of;
}

TEST_CASE("one bucket for an operator each is the step without buckets") {
  const test::World world = world_of({truth(1000), truth(1000), truth(1000)}, 2);
  const NativeCostModel model(world.table());
  Plan plan = bucketed(world, 2, ShardedLevel::kOptimizer, 1, false);
  const double each = model.evaluate(plan).iteration_ms;
  plan.target_knobs.clear();
  CHECK(model.evaluate(plan).iteration_ms == each);
}

TEST_CASE("a pipeline's first stage divides its gradients, the others have one bucket each") {
  const test::World world = world_of({truth(1000), truth(1000), truth(1000), truth(1000)}, 4);
  Plan plan = test::make_plan(world.model, 4, {2, 4}, {2, 2});
  const NativeCostModel model(world.table());
  const auto sync = [&](std::size_t stage) { return model.evaluate(plan).stages[stage].gradient_sync_ms; };
  const double alone = sync(0);
  CHECK(sync(1) == Approx(alone));
  plan.target_knobs["bucket_bytes"] = "1000";
  CHECK(sync(0) == Approx(alone));
  CHECK(sync(1) == Approx(collective_ms(2000)));
  plan.target_knobs["bucket_bytes"] = "1001";
  CHECK(sync(0) == Approx(collective_ms(2000)));
}

TEST_CASE("a bucket that nobody has measured is named") {
  test::World world = world_of({truth(1000), truth(1000)}, 2);
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.kind == CostKind::kCollective; });
  for (const std::int64_t bytes : {1, 1500}) {
    world.costs.push_back(test::exact_cost(test::link_key(CostKind::kCollective, bytes, 2), 1));
  }
  const NativeCostModel model(world.table());
  CHECK(model.evaluate(bucketed(world, 2, ShardedLevel::kNone, 1000, false)).missing_costs.empty());
  const Prediction prediction = model.evaluate(bucketed(world, 2, ShardedLevel::kNone, 2000, false));
  REQUIRE(prediction.missing_costs.size() == 1);
  CHECK_THAT(prediction.missing_costs[0], Catch::Contains("all_reduce of 2000 bytes over 2 ranks"));
}

TEST_CASE("what buckets cannot do is refused, and what is not priced is named") {
  const test::World world = world_of({truth(1000), truth(1000)}, 2);
  const NativeCostModel model(world.table());
  const auto broken = [&](const Plan& plan) { return validate(plan, world.model, world.cluster); };
  Plan plan = bucketed(world, 2, ShardedLevel::kNone, 1000, true);
  CHECK_THAT(broken(plan).at(0), Catch::Contains("overlap_parameter_gather: needs sharded optimizer or gradients"));
  plan.stages[0].segments[0].sharded = ShardedLevel::kOptimizer;
  CHECK(broken(plan).empty());
  plan.target_knobs.erase("bucket_bytes");
  CHECK_THAT(broken(plan).at(0), Catch::Contains("needs target_knobs.bucket_bytes"));
  plan.target_knobs = {{"bucket_bytes", "-4"}};
  CHECK_THAT(broken(plan).at(0), Catch::Contains("must be a positive integer of bytes, found -4"));
  plan.target_knobs = {{"bucket_bytes", "1000"}};
  plan.stages[0].segments[0].sharded = ShardedLevel::kParameters;
  CHECK_THAT(model.unpriced(plan).at(0), Catch::Contains("a bucket of sharded parameters"));
  plan.stages[0].segments[0].sharded = ShardedLevel::kNone;
  plan.schedule.sub_batches = 2;
  CHECK_THAT(model.unpriced(plan).at(0), Catch::Contains("a bucket beside sub-batches"));
}

}  // namespace
}  // namespace trimtab::tuner
