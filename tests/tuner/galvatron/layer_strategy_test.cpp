// The decision trees against the counts that the paper and its code give, and against an enumeration of its own rules.

#include "papers/galvatron/layer_strategy.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "papers/galvatron/formulas.hpp"
#include "small_profile.hpp"

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

constexpr TreeRules kMixes{.mixes = true};
constexpr TreeRules kPlain{};
constexpr TreeRules kNoRecompute{.recompute = false};

// Ordered ways to write `devices` as a product of at most three powers of two, over different dimensions.
std::size_t ways(std::int32_t devices, std::set<int> used) {
  if (devices == 1) return 1;
  std::size_t count = 0;
  for (int dimension = 0; dimension < 3; ++dimension) {
    if (used.count(dimension) > 0) continue;
    std::set<int> with = used;
    with.insert(dimension);
    for (std::int32_t degree = 2; degree <= devices; degree *= 2) count += ways(devices / degree, with);
  }
  return count;
}

// Over all pipeline degrees 1, 2, 4 ... devices.
std::size_t count_strategies(std::int32_t devices, const TreeRules& rules) {
  std::size_t count = 0;
  for (std::int32_t stages = 1; stages <= devices; stages *= 2) count += decision_tree(devices / stages, rules).size();
  return count;
}

}  // namespace

TEST_CASE("galvatron: decision trees have as many strategies as the paper counts", "[galvatron]") {
  CHECK(count_strategies(8, kMixes) == 68);
  CHECK(count_strategies(8, kPlain) == 44);
  CHECK(count_strategies(8, kNoRecompute) == 22);
  CHECK(count_strategies(16, kPlain) == 74);
  CHECK(count_strategies(64, kPlain) == 158);
  CHECK(count_strategies(1024, kPlain) == 422);
}

TEST_CASE("galvatron: trees are the ordered products of different dimensions, none twice", "[galvatron]") {
  for (std::int32_t devices = 1; devices <= 64; devices *= 2) {
    const std::vector<LayerStrategy> tree = decision_tree(devices, kMixes);
    CHECK(tree.size() == 2 * ways(devices, {}));
    std::set<std::string> texts;
    for (const LayerStrategy& strategy : tree) {
      CHECK(strategy.dp() * strategy.sharded() * strategy.tp() == devices);
      std::string path = strategy.recompute ? "c" : "";
      for (std::int32_t i = 0; i < strategy.depth; ++i) {
        path += std::to_string(static_cast<int>(strategy.levels[i].dimension)) + ":" +
                std::to_string(strategy.levels[i].degree) + " ";
      }
      CHECK(texts.insert(path).second);
    }
  }
}

TEST_CASE("galvatron: strategies are written as the publication writes them", "[galvatron]") {
  CHECK(layer_strategy(4, 2, true, true, true).text(1) == "1-2*-4f-c");
  CHECK(layer_strategy(2, 2, false, false, false).text(2) == "2-2-2*");
  CHECK(layer_strategy(8, 1, true, true, false).text(1) == "1-1-8f");
  CHECK(layer_strategy(1, 4, false, true, false).text(2) == "2-4-1");
  CHECK(layer_strategy(1, 1, false, true, true).text(8) == "8-1-1-c");
}

TEST_CASE("galvatron: the innermost level is of neighbours", "[galvatron]") {
  const LayerStrategy inner = layer_strategy(4, 2, false, true, false);
  CHECK(inner.tp_consecutive());
  CHECK_FALSE(inner.replicas_consecutive());
  const LayerStrategy outer = layer_strategy(4, 2, false, false, false);
  CHECK_FALSE(outer.tp_consecutive());
  CHECK(outer.replicas_consecutive());
  CHECK(layer_strategy(8, 1, false, true, false).replicas_consecutive());
  CHECK(layer_strategy(1, 8, false, true, false).tp_consecutive());
}

TEST_CASE("galvatron: orders of replicas and shards that a plan cannot say cost no less", "[galvatron]") {
  std::size_t said = 0;
  for (std::int32_t stages = 1; stages <= 8; stages *= 2) {
    for (const LayerStrategy& strategy : decision_tree(8 / stages, kMixes))
      said += strategy.in_document_order() ? 1 : 0;
  }
  CHECK(said == 54);  // of 68
  const std::uint64_t seed = 12;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20; ++i) {
    Profile profile = random_profile(random, 4, 8, i % 2 == 0);
    // Neighbours are no slower than others.
    for (auto& [key, ms] : profile.all_reduce) {
      if (!std::get<2>(key)) ms += profile.all_reduce[{std::get<0>(key), std::get<1>(key), true}];
    }
    const Formulas formulas(Variant::kPaper, profile);
    const std::vector<LayerStrategy> tree = decision_tree(8, kMixes);
    for (const LayerStrategy& strategy : tree) {
      if (strategy.in_document_order()) continue;
      const LayerCost cost = formulas.layer(0, strategy, {64, 2, 1, 0}, false);
      const bool matched = std::any_of(tree.begin(), tree.end(), [&](const LayerStrategy& other) {
        if (!other.in_document_order() || other.dp() != strategy.dp() || other.sharded() != strategy.sharded() ||
            other.recompute != strategy.recompute) {
          return false;
        }
        const LayerCost by = formulas.layer(0, other, {64, 2, 1, 0}, false);
        return by.plain_ms <= cost.plain_ms && by.sync_ms <= cost.sync_ms && by.kept_mib == cost.kept_mib &&
               by.states_mib == cost.states_mib && by.peak_mib == cost.peak_mib;
      });
      CHECK(matched);
    }
  }
}
