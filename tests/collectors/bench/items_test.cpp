#include "items.hpp"

#include <catch2/catch.hpp>

#include "fake_device.hpp"
#include "overlap_sweep.hpp"

using namespace trimtab;
using namespace trimtab::bench;

namespace {

struct Rig {
  explicit Rig(FakeSettings settings = {}) : device(std::move(settings)) {
    model = *parse_model_operators(sample_model(), "model.json");
  }
  std::vector<std::string> answers(const std::string& items, Ranks& ranks) {
    const auto requests = parse_requests(
        R"({"schema": "trimtab.benchmark_requests/1", "min_repetitions": 3, "items": [)" + items + "]}", "requests");
    REQUIRE(requests.ok());
    Bench bench{device, ranks, model, requests->precision, {}, Random(1)};
    std::vector<std::string> lines;
    answer(*requests, bench, [&](const std::string& line) { lines.push_back(line); });
    return lines;
  }
  std::vector<std::string> answers(const std::string& items) {
    NoOtherRanks alone;
    return answers(items, alone);
  }

  FakeDevice device;
  ModelOperators model;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an operator item answers with times and sizes", "[gpu_bench]") {
  Rig rig;
  const auto lines = rig.answers(R"({"kind": "operator", "cost_key": "attention", "dtype": "float32", "samples": 2})");
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with(R"({"item": 0, "cost": {"kind": "operator_forward", "subject": "attention", )"
                             R"("dtype": "float32", "samples": 2, "tp": 1, "sharding": "default"}, "values": [)"));
  CHECK(contains(lines[1], "operator_backward"));
  CHECK(contains(lines[2], "operator_stored_bytes"));
  CHECK(contains(lines[3], "operator_working_bytes"));
  CHECK(lines[4] == R"({"item_done": 0})");
  // The same number each time: the device has no noise. 7 kernels of 4 µs at least.
  CHECK(contains(lines[0], "[28000, 28000, 28000]"));
}

TEST_CASE("the other kinds answer too", "[gpu_bench]") {
  Rig rig;
  const auto lines = rig.answers(
      R"({"kind": "optimizer", "cost_key": "head", "dtype": "float16"},
         {"kind": "copy", "direction": "host_to_device", "bytes": 1048576}, {"kind": "process"},
         {"kind": "overlap", "primitive": "channel_memory", "bytes": 8388608, "channels": 8, "kernel_class": "gemm",
          "cost_key": "attention", "samples": 64})");
  REQUIRE(lines.size() == 9);
  CHECK(contains(lines[0], R"("kind": "optimizer_step", "subject": "head", "dtype": "float16"})"));
  CHECK(describe(rig.device.prepared[0].front()) == "elementwise 262144 float32");
  CHECK(contains(lines[2], R"("kind": "point_to_point", "subject": "host_to_device", "bytes": 1048576)"));
  CHECK(lines[4] == R"({"item": 2, "cost": {"kind": "process_bytes", "subject": "process"}, "values": [314572800]})");
  CHECK(contains(lines[6], R"({"kind": "overlap_computation", "subject": "channel_memory", "bytes": 8388608, )"
                           R"("placement": "intra_node", "kernel_class": "gemm", "channels": 8})"));
  CHECK(contains(lines[7], "overlap_communication"));
  CHECK(lines[8] == R"({"item_done": 3})");
}

TEST_CASE("collectives are measured where there are ranks, by the whole groups", "[gpu_bench]") {
  const std::string items = R"({"kind": "collective", "primitive": "all_reduce", "bytes": 4096, "group_size": 2},
                               {"kind": "point_to_point", "bytes": 4096},
                               {"kind": "operator", "cost_key": "attention", "samples": 1, "tp": 2})";
  Rig rig;
  FakeRanks inside(1, 3);
  const auto measured = rig.answers(items, inside);
  REQUIRE(measured.size() == 9);
  CHECK(contains(measured[0], R"({"kind": "collective", "subject": "all_reduce", "bytes": 4096, "group_size": 2, )"
                              R"("placement": "intra_node"})"));
  CHECK(contains(measured[2], R"({"kind": "point_to_point", "subject": "send_recv", "bytes": 4096)"));
  CHECK(contains(measured[4], R"("tp": 2)"));
  FakeRanks left_over(2, 3);
  const auto kept_step = rig.answers(items, left_over);
  CHECK(kept_step[0] == R"({"item_done": 0})");
  CHECK(kept_step[1] == R"({"item_done": 1})");
}

TEST_CASE("an item that cannot be run says why, and the next one runs", "[gpu_bench]") {
  Rig rig;
  const auto lines = rig.answers(
      R"({"kind": "teleport"}, {"kind": "operator", "cost_key": "nobody", "samples": 1},
         {"kind": "operator", "cost_key": "attention", "samples": 0}, {"cost_key": 1},
         {"kind": "operator", "cost_key": "attention", "samples": 1, "tp": 2},
         {"kind": "operator", "cost_key": "attention", "samples": 1, "dtype": "float8"},
         {"kind": "operator", "cost_key": "attention", "samples": 1, "sharding": "alternate"},
         {"kind": "collective", "primitive": "all_reduce", "bytes": 4096, "group_size": 2},
         {"kind": "overlap", "primitive": "hum", "bytes": 1, "cost_key": "attention", "samples": 1},
         {"kind": "overlap", "primitive": "channel_link", "bytes": 1, "cost_key": "attention", "samples": 1},
         {"kind": "copy", "direction": "sideways", "bytes": 1}, {"kind": "process"})");
  REQUIRE(lines.size() == 13);
  for (std::size_t i = 0; i < 11; ++i) {
    CAPTURE(lines[i]);
    CHECK(lines[i].starts_with("{\"item\": " + std::to_string(i) + ", \"error\": "));
  }
  CHECK(contains(lines[1], "there are attention, embedding, feedforward, head, mixture"));
  CHECK(contains(lines[4], "there is one rank"));
  CHECK(contains(lines[9], "channels must be"));
  CHECK(lines[12] == R"({"item_done": 11})");
}

TEST_CASE("a failing device fails the item, not the run", "[gpu_bench]") {
  FakeSettings settings;
  settings.fail_prepare = 0;
  Rig rig(settings);
  const auto lines =
      rig.answers(R"({"kind": "copy", "direction": "device_to_host", "bytes": 64}, {"kind": "process"})");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == R"({"item": 0, "error": "out of memory"})");
}

TEST_CASE("requests are checked as a whole", "[gpu_bench]") {
  CHECK_FALSE(parse_requests(R"({"schema": "x/9", "items": []})", "r").ok());
  CHECK_FALSE(parse_requests(R"({"schema": "trimtab.benchmark_requests/1", "items": [1]})", "r").ok());
  CHECK_FALSE(parse_requests(R"({"schema": "trimtab.benchmark_requests/1"})", "r").ok());
  const auto crossed = parse_requests(
      R"({"schema": "trimtab.benchmark_requests/1", "min_repetitions": 9, "max_repetitions": 3, "items": []})", "r");
  REQUIRE_FALSE(crossed.ok());
  CHECK(crossed.error().message == "r: max_repetitions is less than min_repetitions");
}

TEST_CASE("the sweep measures every pair, and a failed one does not end it", "[gpu_bench]") {
  FakeSettings settings;
  settings.alpha = 1.2;
  settings.fail_prepare = 2;  // the second case's computation
  Rig rig(settings);
  NoOtherRanks alone;
  SweepRequest request;
  request.samples = 64;
  request.channels = {1, 8};
  request.classes = {"teleport"};
  CHECK_FALSE(sweep_cases(request, rig.model, alone).ok());
  request.classes = SweepRequest().classes;
  auto cases = sweep_cases(request, rig.model, alone);
  REQUIRE(cases.ok());
  CHECK(cases->size() == 4 * (3 * 2 + 2));
  Bench bench{rig.device, alone, rig.model, {}, {}, Random(1)};
  std::vector<std::string> lines;
  const auto rows = run_sweep(std::move(*cases), bench, [&](const std::string& line) { lines.push_back(line); });
  CHECK(rows.size() == 32);
  CHECK_FALSE(rows[1].result.ok());
  CHECK(rows[0].result.ok());
  CHECK(rows[2].result.ok());
  CHECK(contains(lines[0], R"("kernel_class": "gemm", "channels": 1)"));
  CHECK(contains(lines[2], R"({"overlap": {"kernel_class": "gemm", "primitive": "channel_memory", "channels": 1)"));
  CHECK(contains(lines[2], R"("alpha": [1.2000, 1.2000, 1.2000])"));
  CHECK(contains(lines[3], R"("error": "out of memory"}})"));
  const std::string table = sweep_table(rows, rig.device.facts());
  CHECK(contains(table, "Not measured: NVLink, NVLS and waiting"));
  CHECK(contains(table, "1.200 [1.200, 1.200]"));
  for (const std::string& line : lines) CHECK(Json::parse(line, "line").ok());
}
