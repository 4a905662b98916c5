#include "tuning/pass_times.hpp"

#include <catch2/catch.hpp>

#include "fake_world.hpp"

using namespace trimtab::coordinator;

TEST_CASE("a plan's pass times are means by rank, of the fewest steps that a rank told of", "[passes]") {
  PassTimes times;
  MeasuredPlan plan;
  plan.plan.hash = "a";
  times.tell(plan);
  CHECK(plan.pass_ms.empty());
  times.add("a", 0, 3, 10);
  times.add("a", 0, 3, 30);
  times.add("a", 2, 3, 7);
  times.add("b", 1, 3, 1000);
  times.tell(plan);
  CHECK(plan.pass_ms == std::vector<double>{20, 0, 7});
  CHECK(plan.pass_steps == 1);
  times.clear();
  times.tell(plan);
  CHECK(plan.pass_ms.size() == 3);  // what was known of it remains
}

TEST_CASE("what ranks spend in their passes goes with the plan that they ran, and survives the coordinator",
          "[passes]") {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"best", 70, 80}}, 3, 0.02);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kMeasuring; }));
  const std::uint64_t launch = one.state().launch;
  const std::uint64_t epoch = one.state().launch_epoch;
  one.feed(FromRank{0, launch, RankPasses{epoch, 40}});
  one.feed(FromRank{1, launch, RankPasses{epoch, 60}});
  one.feed(FromRank{1, launch, RankPasses{epoch, 1e12}});     // cannot be
  one.feed(FromRank{1, launch, RankPasses{epoch + 77, 10}});  // of nobody's plan
  one.feed(FromRank{1, launch + 1, RankPasses{epoch, 10}});   // of no launch that there is
  REQUIRE(one.run([&] { return !one.state().trials.empty(); }));
  REQUIRE(!one.state().observations.empty());
  CHECK(one.state().observations[0].pass_ms == std::vector<double>{40, 60});
  const auto stored = parse_tuning_state(to_json(one.state()));
  REQUIRE(stored.ok());
  CHECK(stored->observations[0].pass_ms == std::vector<double>{40, 60});
  CHECK(stored->observations[0].pass_steps == 1);
  CHECK(one.tuning().search_task().observations[0].pass_ms.size() == 2);
}
