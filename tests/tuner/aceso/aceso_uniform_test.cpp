// Stages from prefix sums against the same stages operator by operator, on random models: names that repeat, layers
// that come again many times, tight memory, every place in the pipeline.

#include <catch2/catch.hpp>

#include "base/random.hpp"
#include "papers/aceso/uniform_stage.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT

namespace {

const char* const kNames[] = {"encoder-embedding",
                              "enc-1st-layernorm",
                              "enc-attention-dropout",
                              "enc-attention-softmax",
                              "block-1-conv1",
                              "block-1-relu",
                              "dense",
                              "gelu",
                              "enc-2nd-layernorm",
                              "post-process",
                              "block-0-0-downsample"};

struct RandomModel {
  Model model;
  Cluster cluster;
  aceso::Profile profile;
};

RandomModel random_model(Random& random) {
  RandomModel world;
  const auto names = static_cast<std::int32_t>(random.between(1, 11));
  const auto period = static_cast<std::int32_t>(random.between(1, 6));
  std::vector<std::int32_t> layer;
  for (std::int32_t i = 0; i < period; ++i) layer.push_back(static_cast<std::int32_t>(random.below(names)));
  const bool repeats = random.below(3) == 0;
  const auto length = static_cast<std::int32_t>(random.between(1, repeats ? 160 : 40));
  for (std::int32_t i = 0; i < length; ++i) {
    const bool odd = random.below(repeats ? 60 : 8) == 0;
    Operator op;
    op.name = kNames[odd ? static_cast<std::int32_t>(random.below(names)) : layer[i % period]];
    op.cost_key = op.name;
    world.model.operators.push_back(op);
  }
  for (const char* const name : kNames) {
    const auto number = [&random](double most) { return random.below(5) == 0 ? 0 : random.uniform() * most; };
    world.profile.rows[name][{1, 1, false}] = {1 + number(9), number(20), number(3), number(3), number(5),
                                               number(10),    number(4),  number(4), true};
  }
  world.profile.intra_node = aceso::LinkTable({1, 2, 3, 4});
  world.profile.inter_node = aceso::LinkTable({0.5, 1, 1, 1});
  Node node;
  node.devices = 4;
  node.memory_bytes = static_cast<Bytes>(random.between(20, 900)) << 20;
  world.cluster.nodes = {node};
  world.model.optimizer_bytes_per_parameter_byte = static_cast<double>(random.below(3));
  world.model.aceso = AcesoFacts{0, random.below(2) == 0 ? 0 : Bytes{20} << 20, true, false};
  return world;
}

}  // namespace

TEST_CASE("a uniform stage from prefix sums is the stage operator by operator") {
  constexpr std::uint64_t kSeed = 20240;
  INFO("seed " << kSeed);
  Random random(kSeed);
  int recomputed = 0;
  for (int i = 0; i < 400; ++i) {
    const RandomModel world = random_model(random);
    const aceso::Tables tables = aceso::Tables::build(world.model, world.cluster, world.profile).value();
    aceso::UniformStages stages(tables);
    for (int j = 0; j < 50; ++j) {
      aceso::UniformStage stage;
      stage.begin = static_cast<std::int32_t>(random.below(tables.operators()));
      stage.end = static_cast<std::int32_t>(random.between(stage.begin + 1, tables.operators()));
      stage.setting = 0;
      stage.place = {static_cast<std::int32_t>(random.between(1, 6)), random.below(2) == 0, random.below(2) == 0};
      const aceso::StageCost price = stages.price(stage);
      std::vector<std::uint8_t> flags;
      const aceso::StageParts parts = stages.parts(stage, flags);
      INFO("model " << i << " stage [" << stage.begin << ", " << stage.end << ")");
      REQUIRE(price.time == Approx(parts.time()).epsilon(1e-12));
      REQUIRE(price.memory == Approx(parts.memory).epsilon(1e-12));
      recomputed += parts.recompute > 0 ? 1 : 0;
    }
  }
  CHECK(recomputed > 300);
}
