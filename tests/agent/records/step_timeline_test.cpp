#include "records/step_timeline.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "../job_range.hpp"

using namespace trimtab::agent;

namespace {

// A step that begins at `begin`: two operators forward, a transfer, one backward.
std::optional<StepPicture> run_step(StepTimeline& timeline, std::uint64_t begin, std::int64_t number) {
  CHECK_FALSE(timeline.add(range("op/a/forward", begin + 10, begin + 20)));
  CHECK_FALSE(timeline.add(range("op/b/forward", begin + 20, begin + 30)));
  CHECK_FALSE(timeline.add(range("transfer/send", begin + 30, begin + 40)));
  CHECK_FALSE(timeline.add(range("op/b/backward", begin + 50, begin + 60)));
  return timeline.add(range("step", begin, begin + 100, number));
}

}  // namespace

TEST_CASE("the fourth step of an epoch is pictured, once") {
  StepTimeline timeline;
  timeline.begin_epoch(3);
  for (int step = 0; step < 3; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
  const auto picture = run_step(timeline, 3000, 3);
  REQUIRE(picture);
  CHECK(picture->epoch == 3);
  CHECK(picture->step == 3);
  CHECK(picture->begin_ns == 3000);
  CHECK(picture->bars_json == R"([["forward",10,30],["transfer",30,40],["backward",50,60]])");
  for (int step = 4; step < 9; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
}

TEST_CASE("passes of whole microbatches are pictured as passes") {
  StepTimeline timeline;
  std::optional<StepPicture> picture;
  for (std::uint64_t begin = 0; begin < 4000; begin += 1000) {
    CHECK_FALSE(timeline.add(range("op/microbatch/forward/whole", begin + 10, begin + 30)));
    CHECK_FALSE(timeline.add(range("op/microbatch/backward/whole", begin + 30, begin + 60)));
    picture = timeline.add(range("step", begin, begin + 100, 0));
  }
  REQUIRE(picture);
  CHECK(picture->bars_json == R"([["forward",10,30],["backward",30,60]])");
}

TEST_CASE("a plan change begins a new epoch with its own picture") {
  StepTimeline timeline;
  for (int step = 0; step < 2; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
  CHECK_FALSE(timeline.add(range("switch", 2500, 2600, 7)));
  for (int step = 3; step < 6; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
  const auto picture = run_step(timeline, 6000, 6);
  REQUIRE(picture);
  CHECK(picture->epoch == 7);
}

TEST_CASE("a step with more ranges than fit gives no picture") {
  StepTimeline timeline;
  for (int step = 0; step < 3; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
  for (std::size_t i = 0; i <= StepTimeline::kMaxBars; ++i) {
    CHECK_FALSE(timeline.add(range("op/a/forward", 5000 + i, 5001 + i)));
  }
  CHECK_FALSE(timeline.add(range("step", 5000, 100000, 3)));
}

TEST_CASE("ranges of other domains and of other names are not drawn") {
  StepTimeline timeline;
  for (int step = 0; step < 3; ++step) CHECK_FALSE(run_step(timeline, 1000 * step, step));
  auto foreign = range("op/a/forward", 3001, 3002);
  foreign.domain = "somebody";
  foreign.range = {};
  CHECK_FALSE(timeline.add(foreign));
  CHECK_FALSE(timeline.add(range("data", 3001, 3002)));
  const auto picture = timeline.add(range("step", 3000, 3100, 3));
  REQUIRE(picture);
  CHECK(picture->bars_json == "[]");
}
