// The aceso cost model against the published code's predictions of its own plans, stage by stage.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "aceso_peer.hpp"
#include "papers/aceso/recompute_rule.hpp"

using namespace trimtab;         // NOLINT: a test's own file
using namespace trimtab::tuner;  // NOLINT

namespace {

// Published numbers are rounded: half of their last digit on top of the relative difference.
bool near(double ours, double published, double last_digit) {
  return std::abs(ours - published) <= 1e-6 * std::abs(published) + 0.5001 * last_digit;
}

struct PricedStage {
  aceso::StageParts parts;
  std::vector<std::uint8_t> given, derived;
};

PricedStage price(const aceso::Tables& tables, const Plan& plan, std::size_t s) {
  const Stage& stage = plan.stages[s];
  std::vector<aceso::OperatorSplit> splits;
  PricedStage priced;
  for (const Segment& segment : stage.segments) {
    for (std::int32_t op = segment.operators.begin; op < segment.operators.end; ++op) {
      const auto in = [op](const std::vector<Range>& ranges) {
        return std::any_of(ranges.begin(), ranges.end(), [op](const Range& range) { return range.contains(op); });
      };
      const bool alternate = in(segment.alternate_dimension);
      splits.push_back(
          {tables.setting(plan.microbatch / segment.dp, segment.tp, alternate), segment.dp, segment.tp, alternate});
      priced.given.push_back(in(segment.recompute) ? 1 : 0);
    }
  }
  const std::int32_t first = stage.devices.front();
  const aceso::Place place{static_cast<std::int32_t>(plan.stages.size() - s), tables.inter_node_input(first),
                           tables.inter_node_output(stage.devices.back() + 1)};
  priced.parts = aceso::stage_parts(tables, stage.operators().begin, splits, priced.given, place);
  aceso::derive_recompute(tables, stage.operators().begin, splits, place, priced.derived);
  return priced;
}

}  // namespace

TEST_CASE("the aceso model predicts what the published code predicted, stage by stage", "[peer]") {
  const auto folder = peer::folder();
  if (!folder) return;
  for (const peer::PeerResult& result : peer::results(*folder)) {
    INFO(result.setting.name());
    const peer::World world = peer::world(*folder, result.setting);
    const auto tables =
        aceso::Tables::build(world.model, world.cluster, aceso::profile_from_costs(world.costs, world.model.dtype));
    REQUIRE(tables.ok());
    double sum = 0;
    double largest = 0;
    for (std::size_t s = 0; s < result.stages.size(); ++s) {
      INFO("stage " << s);
      const PricedStage priced = price(tables.value(), result.plan, s);
      const aceso::StageParts& parts = priced.parts;
      const peer::PeerStage& published = result.stages[s];
      CHECK(near(parts.forward / 1000, published.forward_ms, 1e-4));
      CHECK(near(parts.backward / 1000, published.backward_ms, 1e-4));
      CHECK(near(parts.recompute / 1000, published.recompute_ms, 1e-4));
      CHECK(near(parts.in / 1000, published.in_ms, 1e-4));
      CHECK(near(parts.out / 1000, published.out_ms, 1e-4));
      CHECK(near(parts.reshard / 1000, published.reshard_ms, 1e-4));
      CHECK(near(parts.memory, published.memory_mib, 1e-2));
      // The single-device plans are not a search's result, and ResNet's fine-tuning keeps what was derived before it.
      const std::vector<Segment>& segments = result.plan.stages[s].segments;
      const bool searched = result.plan.stages.size() > 1 && segments.size() == 1;
      if (searched && segments[0].alternate_dimension.empty()) CHECK(priced.derived == priced.given);
      sum += parts.time() / 1000;
      largest = std::max(largest, parts.time() / 1000);
    }
    const double iteration = largest * (result.plan.microbatches() - 1) + sum;
    CHECK(near(iteration, result.iteration_ms, 1e-6));
  }
}
