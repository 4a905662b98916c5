// The formulas on profiles small enough to work out by hand.

#include "papers/galvatron/formulas.hpp"

#include <catch2/catch.hpp>

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

Profile small_profile() {
  Profile profile;
  LayerType type;
  type.cost_key = "layer";
  type.forward_ms = 2;
  type.parameter_mib = 16;
  type.boundary_mib = 1;
  type.sequence_hidden = 262144;
  type.kept_mib = {{1, 10}, {2, 6}, {4, 4}, {8, 3}};
  type.recomputed_mib = 1;
  profile.types = {type};
  profile.type_of.assign(4, 0);
  for (const std::int32_t ranks : {2, 4, 8}) {
    profile.all_reduce[{1, ranks, true}] = 0.25;
    profile.all_reduce[{1, ranks, false}] = 0.5;
  }
  profile.slowdown = 1.3;
  profile.memory_limit_mib = 8192;
  profile.devices = profile.devices_per_node = 8;
  return profile;
}

}  // namespace

TEST_CASE("galvatron: work beside communication is slowed while both run", "[galvatron]") {
  CHECK(beside(10, 4, 1) == 10);
  CHECK(beside(10, 4, 1.3) == Approx(10 + 0.3 * 4));
  CHECK(beside(4, 10, 1.3) == Approx(10 + 0.3 * 4));
  CHECK(beside(10, 0, 1.3) == 10);
}

TEST_CASE("galvatron: samples in chunks, the last one shorter", "[galvatron]") {
  CHECK(chunk_sizes(10, 4) == std::vector<std::int32_t>{3, 3, 3, 1});
  CHECK(chunk_sizes(8, 6) == std::vector<std::int32_t>{2, 2, 2, 2});
  CHECK(chunk_sizes(3, 8) == std::vector<std::int32_t>{1, 1, 1});
  CHECK(chunk_sizes(0, 2).empty());
}

TEST_CASE("galvatron: a change of layout moves what devices lack", "[galvatron]") {
  const LayerStrategy replicas = layer_strategy(4, 1, false, true, false);
  const LayerStrategy sharded = layer_strategy(4, 1, true, true, false);
  const LayerStrategy ranks = layer_strategy(1, 4, false, true, false);
  const LayerStrategy mixed = layer_strategy(2, 2, false, true, false);
  const LayerStrategy turned = layer_strategy(2, 2, false, false, false);
  CHECK(lacking_share(replicas, sharded, 4) == 0);  // sharding moves no samples
  CHECK(lacking_share(ranks, replicas, 4) == 0);    // every rank has all of them
  CHECK(lacking_share(replicas, ranks, 4) == 0.75);
  CHECK(lacking_share(replicas, mixed, 4) == 0.25);
  CHECK(lacking_share(mixed, replicas, 4) == 0);
  CHECK(lacking_share(mixed, turned, 4) == 0.5);  // two ranks need the other half
}

TEST_CASE("galvatron: the paper's layer, worked out by hand", "[galvatron]") {
  const Profile profile = small_profile();
  const Formulas formulas(Variant::kPaper, profile);
  const Situation at{16, 2, 1, 0};  // eight samples a microbatch
  const LayerCost replicas = formulas.layer(0, layer_strategy(8, 1, false, true, false), at, false);
  CHECK(replicas.forward_ms == 2);
  CHECK(replicas.backward_ms == 4);
  CHECK(replicas.plain_ms == 6);
  const double gradients = 2 * 7.0 / 8 * 16 * 0.25;  // 7 ms beside 4 ms
  CHECK(replicas.sync_ms == Approx(2 + gradients + 0.3 * 4));
  CHECK(replicas.kept_mib == 10);
  CHECK(replicas.states_mib == 64);
  CHECK(replicas.peak_mib == 0);
  const LayerCost sharded = formulas.layer(0, layer_strategy(8, 1, true, true, true), at, false);
  CHECK(sharded.states_mib == 8);
  CHECK(sharded.kept_mib == 1);
  CHECK(sharded.peak_mib == 9);
  CHECK(sharded.recompute_ms == 2);
  const double gather = gradients / 2;
  CHECK(sharded.plain_ms == Approx(2 + gather + 6 + 0.3 * gather));
  CHECK(sharded.sync_ms == Approx(2 + gather + 2 * gather + 0.3 * 6));
}

TEST_CASE("galvatron: equations 5 and 9, and the tail of the second version", "[galvatron]") {
  const Profile profile = small_profile();
  const std::vector<StageSum> stages{{10, 14}, {12, 13}, {9, 9}};
  CHECK(Formulas(Variant::kPaper, profile).iteration_ms(stages, 5) == 4 * 12 + 14 + 13 + 9);
  CHECK(Formulas(Variant::kV2, profile).iteration_ms(stages, 5) == 12 * (5 - 1 + 3) + 4);
  CHECK(Formulas(Variant::kV1, profile).iteration_ms(stages, 5) == 36);
}

TEST_CASE("galvatron: sharding alone beats mixes of replicas and shards (takeaway 3)", "[galvatron]") {
  const Profile profile = small_profile();
  const Formulas formulas(Variant::kPaper, profile);
  const TreeRules rules{.mixes = true, .recompute = false};
  int mixes = 0;
  for (const std::int32_t batch : {8, 64, 512}) {
    const Situation at{batch, 1, 1, 0};
    for (const LayerStrategy& strategy : decision_tree(8, rules)) {
      if (strategy.dp() == 1 || strategy.sharded() == 1) continue;
      ++mixes;
      const LayerStrategy pure =
          layer_strategy(strategy.replicas(), strategy.tp(), true, strategy.tp_consecutive(), false);
      CHECK(formulas.layer(0, pure, at, false).states_mib < formulas.layer(0, strategy, at, false).states_mib);
    }
  }
  CHECK(mixes == 30);
}
