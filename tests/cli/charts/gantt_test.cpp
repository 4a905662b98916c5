#include "charts/gantt.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace trimtab::cli;
using trimtab::tuner::EventKind;
using trimtab::tuner::TimelineEvent;

namespace {

const std::vector<TimelineEvent> kTimeline{
    {0, EventKind::kForward, 0, 0, 10},   {0, EventKind::kBackward, 0, 30, 50}, {0, EventKind::kOptimizer, -1, 50, 55},
    {1, EventKind::kTransfer, 0, 10, 12}, {1, EventKind::kForward, 0, 12, 20},  {1, EventKind::kBackward, 0, 20, 30}};

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("each event is a bar that says what it is") {
  const std::string svg = gantt_svg(kTimeline, {});
  CHECK(count(svg, "forward of microbatch 0, stage") == 2);
  CHECK(count(svg, "backward of microbatch 0, stage") == 2);
  CHECK(count(svg, "optimizer, stage 0: 50.0 ms to 55.0 ms (5.00 ms)") == 1);
  CHECK(count(svg, ">stage 1</text>") == 1);
}

TEST_CASE("a file of its own has its style inside and a part of a page has none") {
  CHECK(count(gantt_svg(kTimeline, {"t", 0, true}), "<style>") == 1);
  CHECK(count(gantt_svg(kTimeline, {"t", 0, false}), "<style>") == 0);
}

TEST_CASE("the legend names only what occurs") {
  CHECK(count(gantt_svg(kTimeline, {}), ">gradient sync</text>") == 0);
  CHECK(count(gantt_svg(kTimeline, {}), ">transfer</text>") == 1);
}

TEST_CASE("ten thousand events that nobody can tell apart do not make ten thousand bars") {
  std::vector<TimelineEvent> many;
  for (int i = 0; i < 10'000; ++i) many.push_back({0, EventKind::kForward, i, i * 1.0, i + 1.0});
  const std::string svg = gantt_svg(many, {});
  CHECK(count(svg, "<rect") < 100);
  CHECK(count(svg, "10000 events") == 1);
}

TEST_CASE("an empty timeline is drawn as an empty stage") {
  CHECK(count(gantt_svg({}, {}), "<rect") == 1);
}

TEST_CASE("a trace keeps events that overlap on threads of their own") {
  const auto trace = nlohmann::json::parse(trace_json(kTimeline));
  const auto& events = trace["traceEvents"];
  int complete = 0;
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    ++complete;
    CHECK(event["tid"] == (event["cat"] == "transfer" ? 1 : 0));
    CHECK(event["dur"].get<double>() > 0);
  }
  CHECK(complete == 6);
  CHECK(events.back()["ts"] == 20000.0);
}

TEST_CASE("the critical path is outlined stay by stay and its master stage marked") {
  const trimtab::tuner::StepPath path{1,
                                      {{0, EventKind::kForward, 0, 0, 10},
                                       {1, EventKind::kForward, 0, 12, 20},
                                       {1, EventKind::kBackward, 0, 20, 30},
                                       {0, EventKind::kBackward, 0, 30, 50},
                                       {0, EventKind::kOptimizer, -1, 50, 55}}};
  const std::string svg = gantt_svg(kTimeline, {"t", 0, false, path});
  CHECK(count(svg, "class=\"critical\"") == 4);  // three stays and the legend
  CHECK(count(svg, "class=\"critical-hop\"") == 2);
  CHECK(count(svg, "critical path, stage 1: 12.0 ms to 30.0 ms (18.0 ms)") == 1);
  CHECK(count(svg, "class=\"label master\"") == 1);
  CHECK(count(svg, "it stays longest on stage 1, the master stage") == 1);
  CHECK(count(gantt_svg(kTimeline, {}), "critical") == 0);
  CHECK(count(gantt_svg(kTimeline, {}), "master") == 0);
}
