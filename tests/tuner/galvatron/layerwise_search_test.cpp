// The whole search against every partition and every strategy of every layer, on small models.

#include "strategies/galvatron/layerwise_search.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <limits>
#include <random>

using namespace trimtab;                    // NOLINT: a test's own file
using namespace trimtab::tuner::galvatron;  // NOLINT

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Profile random_profile(std::mt19937_64& random, int layers, bool half_precision) {
  const auto amount = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  Profile profile;
  for (int k = 0; k < 2; ++k) {
    LayerType type;
    type.cost_key = "layer" + std::to_string(k);
    type.forward_ms = amount(0.5, 3);
    type.parameter_mib = amount(10, 80);
    type.boundary_mib = amount(1, 5);
    type.sequence_hidden = type.boundary_mib * kMiB / (half_precision ? 2 : 4);
    const double kept = amount(20, 100);
    type.kept_mib = {{1, kept}, {2, kept * 0.6}, {4, kept * 0.35}};
    type.recomputed_mib = amount(1, 8);
    profile.types.push_back(type);
  }
  for (int i = 0; i < layers; ++i) profile.type_of.push_back(i < layers / 2 ? 0 : 1);
  for (const std::int32_t ranks : {2, 4}) {
    profile.all_reduce[{1, ranks, true}] = amount(0.02, 0.2);
    profile.all_reduce[{1, ranks, false}] = amount(0.02, 0.2);
  }
  profile.transfer = {{2, amount(0.01, 0.1)}, {4, amount(0.01, 0.1)}};
  profile.slowdown = amount(1, 1.4);
  profile.devices = profile.devices_per_node = 4;
  profile.half_precision = half_precision;
  profile.facts.whole = profile.facts.first = profile.facts.last = {amount(10, 100), amount(1, 10)};
  return profile;
}

// Every plan of the pipeline degree.
double least_ms(const Formulas& formulas, const LayerwiseSpace& space, std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(formulas.profile().type_of.size());
  const std::vector<LayerStrategy> tree = decision_tree(4 / stages, TreeRules{});
  double best = kInfinite;
  for (const std::int32_t microbatch : space.microbatches) {
    std::vector<LayerStrategy> usable;
    for (const LayerStrategy& strategy : tree) {
      if (microbatch % strategy.replicas() == 0) usable.push_back(strategy);
    }
    for (std::int32_t cuts = 0; cuts < (1 << (layers - 1)); ++cuts) {
      if (__builtin_popcount(static_cast<unsigned>(cuts)) != stages - 1) continue;
      std::vector<std::size_t> choice(static_cast<std::size_t>(layers), 0);
      while (!usable.empty()) {
        LayeredPlan plan;
        plan.batch = space.batch;
        plan.microbatches = space.batch / microbatch;
        plan.stages.push_back({{0, 0}, {}});
        for (std::int32_t i = 0; i < layers; ++i) {
          if (i > 0 && (cuts >> (i - 1) & 1) != 0) plan.stages.push_back({{i, i}, {}});
          plan.stages.back().operators.end = i + 1;
          plan.stages.back().strategies.push_back(usable[choice[static_cast<std::size_t>(i)]]);
        }
        const LayeredPrice priced = price(formulas, plan);
        if (priced.excess_mib(formulas.profile().memory_limit_mib) <= 0) best = std::min(best, priced.iteration_ms);
        std::size_t i = 0;
        while (i < choice.size() && ++choice[i] == usable.size()) choice[i++] = 0;
        if (i == choice.size()) break;
      }
    }
  }
  return best;
}

}  // namespace

TEST_CASE("galvatron: the whole search beside every plan of small models", "[galvatron]") {
  const std::uint64_t seed = 314;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int cases = 0;
  int exact = 0;
  int missed[3] = {};
  double worst = 0;
  for (int i = 0; i < 12; ++i) {
    const Variant variant = i % 2 == 0 ? Variant::kPaper : Variant::kV2;
    Profile profile = random_profile(random, 4, i % 3 == 0);
    for (const double limit : {900.0, 1600.0, 4000.0}) {
      profile.memory_limit_mib = limit + (variant == Variant::kV2 ? 1024 : 0);
      const Formulas formulas(variant, profile);
      for (const std::int32_t stages : {1, 2, 4}) {
        LayerwiseSpace space;
        space.batch = 8;
        space.microbatches = {4, 8};
        space.cuts = {1, 2, 3};
        space.stages_min = space.stages_max = stages;
        space.tensor_parallel = {1, 2, 4};
        LayerwiseSearch search(formulas, space, nullptr, [] { return false; });
        const std::optional<LayeredPlan> found = search.run();
        const double expected = least_ms(formulas, space, stages);
        INFO("case " << i << ", " << to_string(variant) << ", limit " << limit << ", " << stages << " stages");
        REQUIRE(found.has_value() == (expected < kInfinite));
        if (!found) continue;
        const LayeredPrice priced = price(formulas, *found);
        CHECK(priced.iteration_ms == Approx(search.best_ms()));
        CHECK(priced.excess_mib(profile.memory_limit_mib) <= 0);
        CHECK(priced.iteration_ms >= expected * (1 - 1e-9));
        if (stages == 1) CHECK(priced.iteration_ms == Approx(expected).epsilon(1e-9));
        ++cases;
        exact += priced.iteration_ms <= expected * (1 + 1e-9) ? 1 : 0;
        missed[static_cast<std::size_t>(variant)] += priced.iteration_ms <= expected * (1 + 1e-9) ? 0 : 1;
        worst = std::max(worst, priced.iteration_ms / expected - 1);
      }
    }
  }
  std::printf("galvatron: %d of %d small searches exact, the worst %.2f %% behind\n", exact, cases, worst * 100);
  std::printf("missed: v2 %d, paper %d\n", missed[1], missed[2]);
  CHECK(exact > cases * 4 / 5);
  CHECK(worst < 0.1);
}
