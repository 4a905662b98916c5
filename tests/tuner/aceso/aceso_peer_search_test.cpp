// The aceso strategy on the published profile, under the published cost model and in the published search's space.

#include <catch2/catch.hpp>
#include <cstdio>

#include "aceso_peer.hpp"
#include "papers/aceso_cost_model.hpp"
#include "tuner/search.hpp"
#include "usual_worlds.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT

namespace {

TEST_CASE("aceso finds a plan no slower than the published search's best of every setting", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  for (const peer::PeerResult& published : peer::results(*folder)) {
    if (published.setting.devices() > 16 && !test::all_worlds()) continue;  // half of the work of all
    const peer::World world = peer::world(*folder, published.setting);
    const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
    SearchOptions options;
    options.space = "aceso";
    const SearchOutcome outcome = search(cost_model, Knobs{}, options).value();
    INFO(published.setting.name() << " on " << published.setting.devices() << " devices");
    REQUIRE_FALSE(outcome.result.plans.empty());
    const double ours = outcome.result.plans[0].prediction.iteration_ms;
    std::printf("%-24s %2d devices: published %11.3f ms, aceso %11.3f ms (%+.3f %%), %llu evaluations\n",
                published.setting.name().c_str(), published.setting.devices(), published.iteration_ms, ours,
                100 * (ours / published.iteration_ms - 1), static_cast<unsigned long long>(outcome.result.evaluations));
    CHECK(ours <= published.iteration_ms * (1 + 1e-9));
  }
}

TEST_CASE("a published model on too few devices names how many more would do, and they do", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  for (const peer::PeerResult& published : peer::results(*folder)) {
    if (published.setting.name() != "gpt-2_6B") continue;
    peer::World world = peer::world(*folder, published.setting);
    SearchOptions options;
    options.space = "aceso";
    world.cluster.nodes.resize(1);
    for (const std::int32_t devices : {1, 2}) {
      world.cluster.nodes[0].devices = devices;
      const AcesoCostModel cost_model = AcesoCostModel::build(world.model, world.cluster, world.costs).value();
      const SearchOutcome outcome = search(cost_model, Knobs{}, options).value();
      CHECK(outcome.result.plans.empty() == (devices == 1));
      if (devices > 1) continue;
      CHECK_THAT(outcome.infeasible, Catch::Contains("too much") &&
                                         Catch::Contains("it would fit with 1 more device") &&
                                         Catch::Contains("more memory on each device"));
    }
  }
}

}  // namespace
