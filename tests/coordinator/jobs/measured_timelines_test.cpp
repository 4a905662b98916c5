#include "jobs/measured_timelines.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "../../peak_memory.hpp"
#include "schema/timeline.hpp"

using trimtab::TimelineKind;
using trimtab::coordinator::MeasuredTimelines;
using trimtab::coordinator::PlanText;

namespace {

const std::string kPlan =
    R"({"schema":"trimtab.plan/1","model":"m","global_batch":4,"microbatch":1,"stages":[
        {"devices":[0],"segments":[{"operators":[0,2],"dp":1,"tp":1}]},
        {"devices":[1],"segments":[{"operators":[2,3],"dp":1,"tp":1}]}]})";

PlanText plan(const std::string& hash) {
  return {kPlan, hash};
}

}  // namespace

TEST_CASE("a measured timeline has a row a stage, aligned by the ranks' clocks") {
  MeasuredTimelines timelines;
  REQUIRE(timelines.add(plan("h"), 0, 5'000'000'000, R"([["forward",0,2000000]])").ok());
  REQUIRE(timelines.add(plan("h"), 1, 5'001'000'000, R"([["backward",1000000,3000000]])").ok());
  const auto bars = timelines.timeline("h");
  REQUIRE(bars.size() == 2);
  CHECK(bars[0].kind == TimelineKind::kForward);
  CHECK(bars[0].end_ms == Approx(2.0));
  CHECK(bars[1].stage == 1);
  CHECK(bars[1].begin_ms == Approx(2.0));
}

TEST_CASE("clocks of different nodes are aligned at the step's beginning") {
  MeasuredTimelines timelines;
  REQUIRE(timelines.add(plan("h"), 0, 5, R"([["forward",0,2000000]])").ok());
  REQUIRE(timelines.add(plan("h"), 1, 900'000'000'000, R"([["forward",1000000,2000000]])").ok());
  const auto bars = timelines.timeline("h");
  CHECK(bars[1].begin_ms == Approx(1.0));
}

TEST_CASE("a timeline with a stage missing is no timeline") {
  MeasuredTimelines timelines;
  REQUIRE(timelines.add(plan("h"), 0, 5, R"([["forward",0,2]])").ok());
  CHECK(timelines.timeline("h").empty());
  CHECK(timelines.timeline("other").empty());
}

TEST_CASE("of ranks that no picture shows and of plans that nobody asks for nothing is kept") {
  MeasuredTimelines timelines;
  const std::string bars = R"([["forward",0,2]])";
  for (std::int32_t rank = 0; rank < 1000; ++rank) REQUIRE(timelines.add(plan("h"), rank, 5, bars).ok());
  CHECK(timelines.pictures() == 2);  // the plan has two stages
  for (const char* hash : {"i", "j"}) REQUIRE(timelines.add(plan(hash), 0, 5, bars).ok());
  CHECK(timelines.pictures() == 4);
  timelines.keep([](const std::string& hash) { return hash == "i"; });
  CHECK(timelines.pictures() == 1);
}

TEST_CASE("malformed bars are refused") {
  MeasuredTimelines timelines;
  for (const char* bars : {"", "{}", "[[1,2,3]]", R"([["forward",3,2]])", R"([["forward",-1,2]])",
                           R"([["sideways",1,2]])", R"([["forward",1]])", R"([["forward",1.5,2]])"}) {
    INFO(bars);
    CHECK_FALSE(timelines.add(plan("h"), 0, 5, bars).ok());
  }
}

TEST_CASE("as many bars as an agent sends are taken, however long their numbers") {
  std::string bars;
  for (int i = 0; i < 4096; ++i) bars += R"(,["gradient_sync",18446744073709551615,18446744073709551615])";
  bars[0] = '[';
  MeasuredTimelines timelines;
  CHECK(timelines.add(plan("h"), 0, 5, bars + "]").ok());
  CHECK_FALSE(timelines.add(plan("h"), 0, 5, bars + R"(,["forward",1,2]])").ok());
  for (const auto kind : trimtab::kTimelineKinds) CHECK(to_string(kind).size() <= std::string("gradient_sync").size());
}

TEST_CASE("a timeline of a frame's size is refused before its values are made") {
  constexpr std::size_t kFrame = std::size_t{8} << 20;
  std::string lists = "[[]";
  while (lists.size() < kFrame - 8) lists += ",[]";
  std::string few = "[[[]";  // short enough, too deep
  while (few.size() < (std::size_t{256} << 10) - 8) few += ",[]";
  const std::string deep(kFrame, '[');
  const std::string within(std::size_t{256} << 10, '[');
  for (const std::string& bars : {lists + "]", few + "]]", deep, within}) {
    MeasuredTimelines timelines;
    const trimtab::test::PeakMemory memory;
    CHECK_FALSE(timelines.add(plan("h"), 0, 5, bars).ok());
    CHECK(memory.growth_bytes() < 1 << 20);
  }
}
