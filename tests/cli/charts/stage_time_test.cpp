#include "charts/stage_time.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;
using tuner::EventKind;

namespace {

double ms(const StageTime& stage, Activity activity) {
  return stage.ms[static_cast<std::size_t>(activity)];
}

}  // namespace

TEST_CASE("a stage's time is computation first, then communication with nothing beside it, then waiting") {
  const auto stages = stage_times({{0, EventKind::kForward, 0, 0, 10},
                                   {0, EventKind::kBackward, 0, 20, 40},
                                   {0, EventKind::kGradientSync, -1, 30, 50},
                                   {0, EventKind::kOptimizer, -1, 50, 55},
                                   {1, EventKind::kTransfer, 0, 10, 12},
                                   {1, EventKind::kForward, 0, 12, 20},
                                   {1, EventKind::kRecompute, 0, 20, 28}});
  REQUIRE(stages.size() == 2);
  CHECK(ms(stages[0], Activity::kForward) == 10);
  CHECK(ms(stages[0], Activity::kBackward) == 20);
  CHECK(ms(stages[0], Activity::kGradientSync) == 10);  // the other 10 ran beside the backward pass
  CHECK(ms(stages[0], Activity::kOptimizer) == 5);
  CHECK(ms(stages[0], Activity::kWaiting) == 10);
  CHECK(ms(stages[1], Activity::kTransfer) == 2);
  CHECK(ms(stages[1], Activity::kRecompute) == 8);
  CHECK(ms(stages[1], Activity::kWaiting) == 10 + 27);
  const auto shares = mean_shares(stages);
  double sum = 0;
  for (const double share : shares) sum += share;
  CHECK(sum == Approx(1));
  CHECK(shares.back() == Approx(47.0 / 110));
}

TEST_CASE("bars that overlap, touch or are empty are counted once") {
  const auto stages = stage_times({{0, EventKind::kForward, 0, 0, 10},
                                   {0, EventKind::kForward, 1, 5, 15},
                                   {0, EventKind::kForward, 2, 15, 20},
                                   {0, EventKind::kBackward, 2, 20, 20}});
  REQUIRE(stages.size() == 1);
  CHECK(ms(stages[0], Activity::kForward) == 20);
  CHECK(ms(stages[0], Activity::kWaiting) == 0);
  CHECK(stage_times({}).empty());
  CHECK(mean_shares({})[0] == 0);
}
