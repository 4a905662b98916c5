#include "plan/plan_space.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "base/random.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// By trying every number for every stage.
void list_all(const PlanSpace& space, const Model& model, std::int32_t microbatch, std::size_t stages,
              std::vector<std::int32_t>& chosen, std::vector<std::vector<std::int32_t>>& out) {
  const std::int32_t used = std::accumulate(chosen.begin(), chosen.end(), 0);
  if (chosen.size() == stages) {
    if (used == space.devices) out.push_back(chosen);
    return;
  }
  for (std::int32_t count = 1; used + count <= space.devices; ++count) {
    if (space.equal_stages && count * static_cast<std::int32_t>(stages) != space.devices) continue;
    if (!space.allows_devices(used, count) || space.splits(model, microbatch, count).empty()) continue;
    chosen.push_back(count);
    list_all(space, model, microbatch, stages, chosen, out);
    chosen.pop_back();
  }
}

test::World random_cluster(Random& random) {
  test::World world = test::random_world(random, {6, 4, 2});
  for (std::int64_t n = random.between(0, 2); n > 0; --n) {
    Node node = world.cluster.nodes[0];
    node.name = "n" + std::to_string(n);
    node.devices = static_cast<std::int32_t>(random.between(1, 5));
    world.cluster.nodes.push_back(node);
  }
  return world;
}

TEST_CASE("the microbatches of any global batch are its divisors that the model allows") {
  Model model;
  for (model.global_batch = 1; model.global_batch <= 300; ++model.global_batch) {
    INFO(model.global_batch);
    std::vector<std::int32_t> divisors;
    for (std::int32_t value = 1; value <= model.global_batch; ++value) {
      if (model.global_batch % value == 0) divisors.push_back(value);
    }
    CHECK(allowed_microbatches(model) == divisors);
  }
  // The largest int32 is a prime number.
  model.global_batch = std::numeric_limits<std::int32_t>::max();
  CHECK(allowed_microbatches(model) == std::vector<std::int32_t>{1, model.global_batch});
  model.global_batch = 1 << 20;
  CHECK(allowed_microbatches(model).size() == 21);
  model.microbatch_total = {3, 8, 4};
  CHECK(allowed_microbatches(model) == std::vector<std::int32_t>{4, 8});
}

TEST_CASE("splits of the devices are all that there are, in order, in every space") {
  const std::uint64_t seed = 12;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    const test::World world = random_cluster(random);
    for (const std::string_view name : spaces()) {
      const PlanSpace space = named_space(name, world.model, world.cluster, Knobs{}, 1).value();
      for (std::int32_t stages = 1; stages <= std::min(4, space.stages_max); ++stages) {
        const std::int32_t microbatch = space.microbatches[random.below(space.microbatches.size())];
        std::vector<std::int32_t> chosen;
        std::vector<std::vector<std::int32_t>> expected;
        list_all(space, world.model, microbatch, static_cast<std::size_t>(stages), chosen, expected);
        INFO("case " << i << ", space " << name << ", " << stages << " stages, microbatch " << microbatch);
        REQUIRE(space.device_splits(world.model, microbatch, stages, 100000) == expected);
        const std::vector<std::int32_t> even = space.even_split(world.model, microbatch, stages);
        REQUIRE(even.empty() == expected.empty());
        if (!even.empty()) REQUIRE(std::find(expected.begin(), expected.end(), even) != expected.end());
      }
    }
  }
}

TEST_CASE("a space of thousands of devices is split evenly") {
  test::World world = test::make_world(std::vector<test::OperatorTruth>(100), 8, 1 << 14, {1});
  const Node node = world.cluster.nodes[0];
  for (int n = 1; n < 2048; ++n) world.cluster.nodes.push_back(node);
  const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 1).value();
  CHECK(space.even_split(world.model, 1 << 13, 64) == std::vector<std::int32_t>(64, 256));
  const std::vector<std::int32_t> uneven = space.even_split(world.model, 1 << 13, 3);
  REQUIRE(uneven.size() == 3);
  CHECK(uneven[0] + uneven[1] + uneven[2] == 1 << 14);
}

TEST_CASE("a job's space has what its knobs allow, and no more") {
  test::World world = test::make_world(std::vector<test::OperatorTruth>(6), 6, 12, {1});
  const auto space_of = [&](const Knobs& knobs) { return plan_space(world.model, world.cluster, knobs, 1); };
  const PlanSpace plain = space_of(Knobs{});
  CHECK(plain.tensor_parallel == std::vector<std::int32_t>{1});
  CHECK(plain.sharded == std::vector{ShardedLevel::kNone});
  CHECK(plain.sub_batches == std::vector{SubBatches{}});
  CHECK_FALSE(plain.memory_switches);
  Knobs knobs;
  knobs.sub_batches = true;  // nothing to run beside without tensor-parallel ranks
  CHECK(space_of(knobs).sub_batches.size() == 1);
  knobs.tensor_parallel = true;
  CHECK(space_of(knobs).tensor_parallel == std::vector<std::int32_t>{1, 2, 4});
  CHECK(space_of(knobs).sub_batches == every_sub_batches());
  CHECK(space_of(knobs).sharded.size() == 1);
  knobs = {};
  knobs.sharded = true;
  knobs.memory_switches = true;
  CHECK(space_of(knobs).sharded == sharding_levels());
  CHECK(space_of(knobs).memory_switches);
  CHECK(space_of(knobs).tensor_parallel.size() == 1);
  // Without replicas, as few stages as tensor-parallel ranks leave.
  knobs = {};
  knobs.data_parallel = false;
  CHECK(space_of(knobs).stages_min == 6);
  knobs.tensor_parallel = true;
  CHECK(space_of(knobs).stages_min == 2);
}

TEST_CASE("an unknown space is refused by naming the known ones") {
  const test::World world = test::make_world({{}}, 1, 1, {1});
  const auto space = named_space("everything", world.model, world.cluster, Knobs{}, 1);
  REQUIRE_FALSE(space.ok());
  CHECK_THAT(space.error().message, Catch::Contains("job, aceso") && Catch::Contains("'everything'"));
}

}  // namespace
}  // namespace trimtab::tuner
