// The whole search against every partition and every strategy of every layer, on small models.

#include "papers/galvatron/layerwise_search.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <limits>
#include <random>

#include "small_profile.hpp"

using namespace trimtab;                    // NOLINT: a test's own file
using namespace trimtab::tuner::galvatron;  // NOLINT

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Every plan of the pipeline degree.
double least_ms(const Formulas& formulas, const LayerwiseSpace& space, std::int32_t stages) {
  const auto layers = static_cast<std::int32_t>(formulas.profile().type_of.size());
  const std::vector<LayerStrategy> tree = decision_tree(4 / stages, TreeRules{.mixes = space.mixes});
  double best = kInfinite;
  for (const std::int32_t microbatch : space.microbatches) {
    std::vector<LayerStrategy> usable;
    for (const LayerStrategy& strategy : tree) {
      if (microbatch % strategy.replicas() == 0 && formulas.has(0, strategy, stages)) usable.push_back(strategy);
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
  int proven[3] = {};
  double widest = 0;
  for (int i = 0; i < 12; ++i) {
    const Variant variant = i % 2 == 0 ? Variant::kPaper : Variant::kV2;
    Profile profile = random_profile(random, 4, 4, i % 3 == 0);
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
        space.mixes = i % 4 < 2;
        LayerwiseSearch search(formulas, space, nullptr, [] { return false; });
        const std::optional<LayeredPlan> found = search.run();
        const double expected = least_ms(formulas, space, stages);
        INFO("case " << i << ", "
                     << "variant " << static_cast<int>(variant) << ", limit " << limit << ", " << stages << " stages");
        REQUIRE(found.has_value() == (expected < kInfinite));
        CHECK(search.lower_bound_ms() <= expected * (1 + 1e-9));
        if (!found) continue;
        const LayeredPrice priced = price(formulas, *found);
        CHECK(priced.iteration_ms == Approx(search.best_ms()));
        CHECK(priced.excess_mib(profile.memory_limit_mib) <= 0);
        CHECK(priced.iteration_ms >= expected * (1 - 1e-9));
        if (stages == 1) CHECK(priced.iteration_ms == Approx(expected).epsilon(1e-9));
        ++cases;
        const double gap = 1 - search.lower_bound_ms() / search.best_ms();
        widest = std::max(widest, gap);
        if (gap > 1e-9) continue;
        ++proven[static_cast<std::size_t>(variant)];
        CHECK(priced.iteration_ms == Approx(expected).epsilon(1e-9));
      }
    }
  }
  std::printf("galvatron: of %d small searches v2 proves %d, paper %d, widest gap %.2f %%\n", cases, proven[1],
              proven[2], widest * 100);
  CHECK(proven[1] > 40);
  CHECK(proven[2] > 50);
  CHECK(widest < 0.05);
}
