#include "tuner/validate.hpp"

#include <catch2/catch.hpp>

#include "schema/target.hpp"
#include "tuner/first_plan.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

test::World world_of(std::int32_t operators, std::int32_t devices, std::int32_t batch = 8) {
  std::vector<test::OperatorTruth> truths(static_cast<std::size_t>(operators));
  for (test::OperatorTruth& truth : truths) truth.cost_key = "op";
  return test::make_world(truths, devices, batch, {1});
}

// The one message of a plan that breaks one rule.
std::string only(const std::vector<std::string>& broken) {
  INFO([&broken] {
    std::string all;
    for (const std::string& rule : broken) all += rule + "\n";
    return all;
  }());
  REQUIRE(broken.size() == 1);
  return broken.front();
}

struct Case {
  test::World world = world_of(6, 4);
  Plan plan = test::make_plan(world.model, 4, {2, 6}, {2, 2});
  [[nodiscard]] std::vector<std::string> broken() const { return validate(plan, world.model, world.cluster); }
  [[nodiscard]] std::vector<std::string> broken(const Knobs& knobs) const {
    return validate(plan, world.model, world.cluster, knobs);
  }
};

TEST_CASE("a good plan breaks no rule") {
  const Case good;
  CHECK(good.broken().empty());
  CHECK(good.broken(Knobs{}).empty());
}

TEST_CASE("the plan's model and batch must be the model's") {
  Case bad;
  bad.plan.model = "other";
  CHECK_THAT(only(bad.broken()), Catch::Contains("model: the plan is for 'other', but the model is 'toy'"));
  bad = Case();
  bad.plan.global_batch = 16;
  CHECK_THAT(only(bad.broken()), Catch::Contains("global_batch: must be the model's, 8, found 16"));
}

TEST_CASE("the microbatch must divide the batch and be one that the model allows") {
  Case bad;
  bad.plan.microbatch = 6;
  CHECK_THAT(only(bad.broken()),
             Catch::Contains("microbatch: must be one of 1, 2, 4, 8") && Catch::Contains("found 6"));
  bad = Case();
  bad.world.model.microbatch_total = {1, 8};
  CHECK_THAT(only(bad.broken()), Catch::Contains("microbatch: must be one of 1, 8"));
  bad = Case();
  bad.world.model.microbatch_per_replica = {1, 4};
  const std::vector<std::string> broken = bad.broken();
  REQUIRE(broken.size() == 2);
  CHECK_THAT(broken[0], Catch::Contains("stages[0].segments[0].dp: leaves 2 samples per replica") &&
                            Catch::Contains("the model allows 1, 4"));
}

TEST_CASE("operators are covered exactly once and in order") {
  Case bad;
  bad.plan.stages[1].segments[0].operators.begin = 3;
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[1].segments[0].operators: must begin at operator 2 "
                                                 "(operator-2), where the one before ends, found 3"));
  bad = Case();
  bad.plan.stages[1].segments[0].operators.end = 5;
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages: cover operators 0 to 5, but the model has 6"));
  bad = Case();
  bad.plan.stages[1].segments[0].operators.end = 7;
  CHECK_FALSE(bad.broken().empty());
}

TEST_CASE("a stage may begin only where the model allows a cut") {
  Case bad;
  bad.world.model.operators[2].cut_before = false;
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[1]: must not begin with operator 2 (operator-2)"));
}

TEST_CASE("devices exist, are distinct and are used once") {
  Case bad;
  bad.plan.stages[1].devices = {2, 4};
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[1].devices: device 4 does not exist"));
  bad.plan.stages[1].devices = {3, 3};
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[1].devices: device 3 is listed twice"));
  bad.plan.stages[1].devices = {1, 3};
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[1].devices: device 1 belongs to an earlier stage"));
}

TEST_CASE("a stage's degrees multiply to its devices and divide the microbatch") {
  Case bad;
  bad.plan.stages[0].segments[0].dp = 1;
  CHECK_THAT(only(bad.broken()), Catch::Contains("stages[0].segments[0]: dp * tp * cp must be the stage's 2 devices, "
                                                 "found 1 * 1 * 1"));
  bad.plan.stages[0].segments[0].tp = 2;
  CHECK(bad.broken().empty());
  bad = Case();
  bad.plan.microbatch = 1;
  CHECK(bad.broken().size() == 2);
  CHECK_THAT(bad.broken()[0], Catch::Contains("stages[0].segments[0].dp: must divide microbatch 1, found 2"));
}

TEST_CASE("recompute ranges are ascending, disjoint and inside their segment") {
  for (const std::vector<Range>& ranges :
       {std::vector<Range>{{1, 3}}, std::vector<Range>{{1, 2}, {0, 1}}, std::vector<Range>{{1, 1}}}) {
    Case bad;
    bad.plan.stages[0].segments[0].recompute = ranges;
    CHECK_THAT(only(bad.broken()), Catch::Contains("stages[0].segments[0].recompute: ranges must be ascending, "
                                                   "disjoint and inside [0, 2)"));
  }
}

TEST_CASE("an alternate dimension needs an operator that has one") {
  Case bad;
  bad.plan.stages[0].segments[0].alternate_dimension = {{0, 1}};
  CHECK_THAT(only(bad.broken()), Catch::Contains("operator 0 (operator-0) has no second way to be split"));
}

TEST_CASE("sharding needs replicas, and a degree that divides them") {
  Case one;
  Segment& segment = one.plan.stages[1].segments[0];
  segment.sharded = ShardedLevel::kGradients;
  CHECK(one.broken().empty());
  segment.sharded_degree = 2;
  CHECK(one.broken().empty());
  segment.sharded_degree = 1;
  CHECK_THAT(only(one.broken()), Catch::Contains("stages[1].segments[0].sharded_degree: must be 2 or more"));
  segment.sharded_degree = 3;
  CHECK_THAT(only(one.broken()), Catch::Contains("sharded_degree: must divide dp 2, found 3"));
  segment.sharded_degree = 0;
  segment.dp = 1;
  segment.tp = 2;
  CHECK_THAT(only(one.broken()), Catch::Contains("stages[1].segments[0].sharded: needs 2 replicas or more"));
}

TEST_CASE("segments of one stage share its devices and follow each other") {
  Case one;
  Stage& stage = one.plan.stages[1];
  Segment second = stage.segments[0];
  stage.segments[0].operators.end = 4;
  second.operators.begin = 4;
  second.dp = 1;
  second.tp = 2;
  stage.segments.push_back(second);
  CHECK(one.broken().empty());
  stage.segments[1].operators.begin = 5;
  CHECK_THAT(only(one.broken()), Catch::Contains("stages[1].segments[1].operators: must begin at operator 4"));
  stage.segments[1].operators.begin = 4;
  stage.segments[1].tp = 4;
  CHECK_THAT(only(one.broken()), Catch::Contains("stages[1].segments[1]: dp * tp * cp must be the stage's 2 devices"));
}

TEST_CASE("knobs that the job does not honour must not be set") {
  Case one;
  Knobs knobs;
  knobs.pipeline = false;
  CHECK_THAT(only(one.broken(knobs)), Catch::Contains("stages: must be one, found 2"));
  knobs = {};
  knobs.data_parallel = false;
  CHECK(one.broken(knobs).size() == 2);
  knobs = {};
  knobs.uneven_stages = false;
  CHECK_THAT(only(one.broken(knobs)),
             Catch::Contains("stages[1]: must begin with operator 3 (operator-3), the even cut"));
  knobs = {};
  knobs.recompute = false;
  one.plan.stages[0].segments[0].recompute = {{0, 1}};
  CHECK_THAT(only(one.broken(knobs)), Catch::Contains("knobs.recompute"));
}

TEST_CASE("tensor parallelism, sharding, sub-batches and memory switches each need their knob") {
  Case tensor;
  tensor.plan.stages[0].segments[0].dp = 1;
  tensor.plan.stages[0].segments[0].tp = 2;
  CHECK_THAT(only(tensor.broken(Knobs{})), Catch::Contains("stages[0].segments[0].tp: must be left at its default") &&
                                               Catch::Contains("knobs.tensor_parallel"));
  Knobs knobs;
  knobs.tensor_parallel = true;
  CHECK(tensor.broken(knobs).empty());
  tensor.plan.schedule.sub_batches = 2;
  tensor.plan.schedule.cross_pass = true;
  tensor.plan.schedule.recompute_after_communication = true;
  REQUIRE(tensor.broken().empty());
  CHECK(tensor.broken(knobs).size() == 3);
  knobs.sub_batches = true;
  CHECK(tensor.broken(knobs).empty());

  Case switched;
  switched.plan.stages[0].segments[0].switches.offload_optimizer = true;
  switched.plan.stages[0].segments[0].sharded = ShardedLevel::kGradients;
  REQUIRE(switched.broken().empty());
  const std::vector<std::string> both = switched.broken(Knobs{});
  REQUIRE(both.size() == 2);
  CHECK_THAT(both[0], Catch::Contains("knobs.sharded"));
  CHECK_THAT(both[1], Catch::Contains("knobs.memory_switches"));
  knobs = {};
  knobs.sharded = true;
  CHECK_THAT(only(switched.broken(knobs)), Catch::Contains("knobs.memory_switches"));
  knobs.memory_switches = true;
  CHECK(switched.broken(knobs).empty());

  Segment& offloaded = switched.plan.stages[0].segments[0];
  offloaded.sharded = ShardedLevel::kOptimizer;
  CHECK(switched.broken().empty());
  offloaded.switches.segment_sync = {offloaded.operators};
  CHECK_THAT(only(switched.broken()), Catch::Contains("sharded: must be gradients"));
}

TEST_CASE("what no knob of a job covers is refused by name") {
  Case one;
  one.plan.schedule.kind = ScheduleKind::kGPipe;
  CHECK(one.broken().empty());
  CHECK_THAT(only(one.broken(Knobs{})), Catch::Contains("schedule.kind"));
  one = Case();
  one.plan.stages[0].segments[0].dp = 1;
  one.plan.stages[0].segments[0].cp = 2;
  CHECK(one.broken().empty());
  CHECK_THAT(only(one.broken(Knobs{})),
             Catch::Contains("stages[0].segments[0].cp") && Catch::Contains("knobs.context_parallel"));
  Knobs context;
  context.context_parallel = true;
  CHECK(one.broken(context).empty());
  one = Case();
  one.plan.stages[0].segments[0].dp = 1;
  one.plan.stages[0].segments[0].tp = 2;
  one.plan.target_knobs["sequence_parallel"] = "true";
  CHECK(one.broken().empty());
  Knobs tensor;
  tensor.tensor_parallel = true;
  CHECK_THAT(only(one.broken(tensor)),
             Catch::Contains("target_knobs.sequence_parallel") && Catch::Contains("knobs.sequence_parallel"));
  tensor.sequence_parallel = true;
  CHECK(one.broken(tensor).empty());
  one = Case();
  one.plan.stages[1].devices = {2};
  one.plan.stages[1].segments[0].dp = 1;
  CHECK_THAT(only(one.broken(Knobs{})), Catch::Contains("device 3 belongs to no stage"));
}

TEST_CASE("the usual guess is valid for every knob and recomputes everything where that is possible") {
  for (std::int32_t devices = 1; devices <= 4; ++devices) {
    const test::World world = world_of(6, devices, 12);
    for (int bits = 0; bits < 64; ++bits) {
      Knobs knobs{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0};
      knobs.tensor_parallel = (bits & 32) != 0;
      const bool shared = knobs.data_parallel || (knobs.tensor_parallel && devices != 3);
      if (devices > 1 && !knobs.pipeline && !shared) continue;  // no plan uses every device
      const Plan plan = usual_guess(world.model, world.cluster, knobs);
      INFO(devices << " devices, knobs " << bits);
      const std::vector<std::string> broken = validate(plan, world.model, world.cluster, knobs);
      CHECK((broken.empty() ? "" : broken.front()) == "");
      if (knobs.recompute) CHECK(plan.stages[0].segments[0].recompute.size() == 1);
      // The microbatch is the smallest that the stages can share.
      if (knobs.pipeline) CHECK(plan.microbatch == 1);
      if (knobs.pipeline) CHECK(plan.stages.size() == static_cast<std::size_t>(devices));
    }
  }
}

TEST_CASE("the usual guess shares more devices than operators evenly") {
  const test::World world = world_of(2, 7, 12);
  const Plan plan = usual_guess(world.model, world.cluster, Knobs{});
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[0].devices.size() == 3);
  CHECK(plan.stages[1].devices.size() == 4);
  CHECK(plan.microbatch == 12);
  CHECK(validate(plan, world.model, world.cluster, Knobs{}).empty());
}

TEST_CASE("every target has a plan to begin with, on any number of devices that share the batch") {
  for (const std::string_view target : targets()) {
    for (const std::int32_t devices : {1, 2, 3, 4, 8, 12}) {
      for (const bool sharded : {false, true}) {
        const test::World world = world_of(6, devices, 24);
        Knobs knobs;
        knobs.sharded = sharded;
        const Plan plan = first_plan(world.model, world.cluster, within_target(knobs, target), target);
        CAPTURE(target, devices, sharded, to_json(plan));
        CHECK(validate(plan, world.model, world.cluster).empty());
        CHECK(unhonoured(plan, world.model, target).value().empty());
        const bool shards = plan.stages[0].segments[0].sharded == ShardedLevel::kParameters;
        CHECK(shards == ((target == "fsdp" || target == "fsdp2") && sharded && devices > 1));
      }
    }
  }
}

TEST_CASE("what a target has no use for is no knob of its jobs") {
  Knobs none;
  none.pipeline = none.data_parallel = false;
  CHECK(within_target(none, "ddp").data_parallel);      // else nothing would be measured, and no plan be found
  CHECK_FALSE(within_target(Knobs{}, "ddp").pipeline);  // else point-to-point transfers would be benchmarked
  CHECK_FALSE(within_target(none, "megatron").data_parallel);
  CHECK(within_target(Knobs{}, "megatron").pipeline);
  CHECK(within_target(none, "") == none);
}

TEST_CASE("the usual guess cuts between layers") {
  test::World world = world_of(10, 2);
  // Embedding and head belong to the first and last layer: layers of 3, 2, 2 and 3 operators.
  const std::vector<std::int32_t> layers{0, 0, 0, 1, 1, 2, 2, 3, 3, 3};
  for (std::size_t i = 0; i < layers.size(); ++i) world.model.operators[i].layer = layers[i];
  const Plan plan = usual_guess(world.model, world.cluster, Knobs{});
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[1].operators().begin == 5);
}

}  // namespace
}  // namespace trimtab::tuner
