// What a stage takes at best, against every choice of its layers, priced by the formulas themselves.

#include "papers/galvatron/stage_table.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <limits>
#include <random>

#include "papers/galvatron/layered_plan.hpp"
#include "small_profile.hpp"

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Eight ways to use eight devices, replicas of shards among them.
std::vector<LayerStrategy> eight_strategies(std::mt19937_64& random) {
  std::vector<LayerStrategy> mixes;
  std::vector<LayerStrategy> others;
  for (const LayerStrategy& strategy : decision_tree(8, TreeRules{.mixes = true})) {
    if (!strategy.in_document_order()) continue;
    (strategy.dp() > 1 && strategy.sharded() > 1 ? mixes : others).push_back(strategy);
  }
  std::shuffle(mixes.begin(), mixes.end(), random);
  std::shuffle(others.begin(), others.end(), random);
  std::vector<LayerStrategy> eight;
  std::copy_n(mixes.begin(), 3, std::back_inserter(eight));
  std::copy_n(others.begin(), 5, std::back_inserter(eight));
  return eight;
}

struct Priced {
  StageSum sum;
  double memory_mib = 0;  // equation 2
};

// Every choice, from the costs of single layers. Shares nothing with the table but the formulas.
std::vector<Priced> every_choice(const Formulas& formulas, const std::vector<LayerStrategy>& strategies,
                                 const Situation& at) {
  const std::vector<std::int32_t>& types = formulas.profile().type_of;
  std::vector<std::vector<LayerCost>> costs;
  std::vector<std::vector<double>> changes;
  for (std::int32_t type = 0; type < 2; ++type) {
    costs.emplace_back();
    changes.emplace_back();
    for (const LayerStrategy& from : strategies) {
      costs.back().push_back(formulas.layer(type, from, at, false));
      for (const LayerStrategy& to : strategies) {
        changes.back().push_back(formulas.layout_change_ms(type, from, to, at));
      }
    }
  }
  std::vector<Priced> all;
  std::vector<std::size_t> choice(types.size(), 0);
  while (true) {
    Priced priced;
    double kept = 0;
    double states = 0;
    double highest = 0;
    for (std::size_t i = 0; i < types.size(); ++i) {
      const auto type = static_cast<std::size_t>(types[i]);
      const LayerCost& cost = costs[type][choice[i]];
      const double change = i == 0 ? 0 : changes[type][choice[i - 1] * strategies.size() + choice[i]];
      priced.sum.plain_ms += cost.plain_ms + change;
      priced.sum.sync_ms += cost.sync_ms + change;
      kept += cost.kept_mib;
      states += cost.states_mib;
      highest = std::max(highest, kept + cost.peak_mib);
    }
    priced.memory_mib = states + highest + formulas.reserved_mib(at, false);
    all.push_back(priced);
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == strategies.size()) choice[i++] = 0;
    if (i == choice.size()) return all;
  }
}

}  // namespace

TEST_CASE("galvatron: six layers of eight strategies, mixes among them, equal every choice at many limits",
          "[galvatron]") {
  const std::uint64_t seed = 2718;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int limited = 0;
  int with_mixes = 0;
  for (int i = 0; i < 2; ++i) {
    Profile profile = random_profile(random, 6, 8, i % 2 == 0);
    const std::vector<LayerStrategy> strategies = eight_strategies(random);
    const Situation at{16, 2, 1, 0};
    profile.memory_limit_mib = 1e9;
    const std::vector<Priced> all = every_choice(Formulas(Variant::kPaper, profile), strategies, at);
    std::vector<double> memories;
    for (const Priced& one : all) memories.push_back(one.memory_mib);
    std::sort(memories.begin(), memories.end());
    for (const double part : {0.0001, 0.01, 0.1, 0.3, 0.6, 0.95}) {
      profile.memory_limit_mib = memories[static_cast<std::size_t>(part * static_cast<double>(memories.size()))];
      const Formulas formulas(Variant::kPaper, profile);
      const LayerRanges ranges(profile.type_of);
      const TableSpace space{strategies, false, true};
      StageTable table(formulas, space, ranges, at);
      const std::size_t slot = table.slot(0, 0, 6);
      for (const double share : {0.0, 1.0 / 3, 0.5, 1.0}) {
        double expected = kInfinite;
        double quickest = kInfinite;
        for (const Priced& one : all) {
          quickest = std::min(quickest, weighed(one.sum, share));
          if (one.memory_mib <= profile.memory_limit_mib) expected = std::min(expected, weighed(one.sum, share));
        }
        INFO("profile " << i << ", limit " << profile.memory_limit_mib << " MiB, share " << share);
        const StagePoint* const found = table.least(slot, share);
        REQUIRE((found != nullptr) == (expected < kInfinite));
        CHECK(table.values(share).least[slot] <= expected * (1 + 1e-12));
        if (found == nullptr) continue;
        CHECK(weighed(found->sum, share) == Approx(expected).epsilon(1e-11));
        limited += expected > quickest * (1 + 1e-9) ? 1 : 0;
        for (const std::int32_t s : found->strategies) {
          const LayerStrategy& one = strategies[static_cast<std::size_t>(s)];
          with_mixes += one.dp() > 1 && one.sharded() > 1 ? 1 : 0;
        }
      }
      // Capped plain times: never above the truth, and the choice keeps to the cap.
      const StagePoint* const quick = table.least(slot, 0);
      const StagePoint* const slow = table.least(slot, 1);
      for (int k = 0; quick != nullptr && k <= 4; ++k) {
        const double cap = quick->sum.plain_ms + (slow->sum.plain_ms - quick->sum.plain_ms) * k / 4 + 1e-9;
        double expected = kInfinite;
        for (const Priced& one : all) {
          if (one.memory_mib > profile.memory_limit_mib || one.sum.plain_ms > cap) continue;
          expected = std::min(expected, weighed(one.sum, 1));
        }
        const StageTable::Within within = table.within(slot, cap, 1);
        REQUIRE(within.point != nullptr);
        CHECK(within.point->sum.plain_ms <= cap);
        CHECK(within.least <= expected * (1 + 1e-9));
        CHECK(weighed(within.point->sum, 1) >= expected * (1 - 1e-9));
      }
    }
  }
  CHECK(limited > 10);
  CHECK(with_mixes > 0);
}
