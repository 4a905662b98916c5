#include "commands/benchmark_output.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "processes/captured_process.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kForward =
    R"({"item": 0, "cost": {"kind": "operator_forward", "subject": "attention", "dtype": "float32", "samples": 2}, "values": [100, 110]})";

}  // namespace

TEST_CASE("the items of a request are counted") {
  CHECK(*count_items(R"({"schema":"trimtab.benchmark_requests/1","items":[{},{},{}]})") == 3);
  CHECK_FALSE(count_items("{}").ok());
  CHECK_FALSE(count_items("no JSON").ok());
}

TEST_CASE("the values of all ranks fold into one cost") {
  BenchmarkFold fold(1, 2);
  fold.line(0, kForward);
  fold.line(1, kForward);
  const auto costs = fold.costs();
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].key.kind == CostKind::kOperatorForward);
  CHECK(costs[0].key.subject == "attention");
  CHECK(costs[0].statistics.count() == 4);
  CHECK(costs[0].statistics.mean() == 105);
}

TEST_CASE("what a device takes and what its host takes to launch it are two costs") {
  BenchmarkFold fold(1, 1);
  const std::string pass = R"({"item": 0, "cost": {"kind": "operator_forward", "subject": "attention", "samples": 2)";
  fold.line(0, pass + R"(}, "values": [100], "clock": "device"})");
  fold.line(0, pass + R"(, "algorithm": "launch"}, "values": [700], "clock": "host"})");
  fold.line(0, pass + R"(, "algorithm": "launch", "protocol": "graph"}, "values": [30], "clock": "host"})");
  const auto costs = fold.costs();
  CHECK(fold.malformed() == 0);
  REQUIRE(costs.size() == 3);
  CHECK(costs[0].source.clock == CostSource::Clock::kDevice);
  CHECK(costs[0].source.covered);
  CHECK_FALSE(costs[1].source.covered);
  CHECK_FALSE(costs[0].key.particular());
  for (std::size_t i : {1, 2}) {
    CHECK(costs[i].source.clock == CostSource::Clock::kHost);
    CHECK(costs[i].key.particular());
  }
  CHECK(costs[1].statistics.mean() == 700);
  CHECK(costs[2].key.protocol == "graph");
  // Of another pass no launch was told: its device may have waited in it.
  fold.line(0,
            R"({"item": 0, "cost": {"kind": "operator_backward", "subject": "attention", "samples": 2}, "values": [9],
                   "clock": "device"})");
  fold.line(0, R"({"item": 0, "cost": {"kind": "operator_forward", "subject": "attention", "samples": 4}, "values": [9],
                   "clock": "device"})");
  REQUIRE(fold.costs().size() == 5);
  CHECK(std::ranges::count_if(fold.costs(), [](const Cost& cost) { return cost.source.covered; }) == 1);
}

TEST_CASE("an item is done when every rank here has finished it or given it up") {
  BenchmarkFold fold(2, 2);
  fold.line(0, R"({"item_done": 0})");
  CHECK(fold.items_done() == 0);
  fold.line(1, R"({"item_done": 0})");
  CHECK(fold.items_done() == 1);
  fold.line(0, R"({"item": 1, "error": "no such operator"})");
  fold.line(1, R"({"item_done": 1})");
  CHECK(fold.items_done() == 2);
  REQUIRE(fold.errors().size() == 1);
  CHECK(fold.errors()[0].item == 1);
  CHECK(fold.errors()[0].message == "no such operator");
}

TEST_CASE("log text passes") {
  BenchmarkFold fold(1, 1);
  for (const auto* line : {"", "Loading model", "{not JSON", R"({"level": "info"})", "[1]"}) fold.line(0, line);
  CHECK(fold.malformed() == 0);
  CHECK(fold.costs().empty());
}

TEST_CASE("lines that are meant for us and wrong are counted, and nothing of them is kept") {
  BenchmarkFold fold(1, 1);
  for (const auto* line : {R"({"item_done": 7})", R"({"item": -1, "error": "x"})", R"({"item": 0})",
                           R"({"item": 0, "error": 5})", R"({"item": 0, "cost": {"kind": "nonsense"}, "values": [1]})",
                           R"({"item": 0, "cost": {"kind": "step_overhead", "subject": "step"}, "values": []})",
                           R"({"item": 0, "cost": {"kind": "step_overhead", "subject": "step"}, "values": [1, -1]})",
                           R"({"item": 0, "cost": {"kind": "step_overhead", "subject": "step"}, "values": [1.5]})",
                           R"({"item": 0, "cost": {"kind": "step_overhead", "subject": "step"}, "values": [9e18]})"}) {
    const auto before = fold.malformed();
    fold.line(0, line);
    INFO(line);
    CHECK(fold.malformed() == before + 1);
  }
  CHECK(fold.costs().empty());
  CHECK_FALSE(fold.first_malformed().empty());
}

TEST_CASE("a line of brackets alone does not exhaust the stack") {
  BenchmarkFold fold(1, 1);
  const std::string brackets(200'000, '[');
  const std::string closed(200'000, ']');
  fold.line(0, R"({"item": 0, "cost": {"kind": )" + brackets + closed + R"(}, "values": [1]})");
  CHECK(fold.malformed() == 1);
  CHECK(fold.first_malformed().find("nested deeper") != std::string::npos);
}

TEST_CASE("lines are cut wherever the bytes are divided, and an endless one is thrown away") {
  LineCutter cutter(10);
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  cutter.add("ab", keep);
  cutter.add("c\n\nde", keep);
  cutter.add("f\n0123456789x", keep);
  cutter.add("yz\nlast", keep);
  cutter.finish(keep);
  CHECK(lines == std::vector<std::string>{"abc", "def", "last"});
}
