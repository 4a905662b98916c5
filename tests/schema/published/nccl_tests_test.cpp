#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "schema/published.hpp"

using namespace trimtab;
using nlohmann::json;

namespace {

// As all_reduce_perf -J writes it, two processes of four GPUs each: numbers are made up, the form is not.
json all_reduce_run() {
  const auto row = [](std::int64_t size, double out, double in) {
    return json{{"size", size},
                {"count", size / 4},
                {"type", "float"},
                {"redop", "sum"},
                {"root", "    -1"},
                {"out_of_place", {{"time", out}, {"alg_bw", 1.5}, {"bus_bw", 2.5}, {"nwrong", 0.0}}},
                {"in_place", {{"time", in}, {"alg_bw", 1.5}, {"bus_bw", 2.5}, {"nwrong", 0.0}}},
                {"actual_iterations", 20},
                {"experiment_name", ""}};
  };
  const auto device = [](int rank, const std::string& host) {
    return json{{"rank", rank},
                {"group", 0},
                {"pid", 100 + rank},
                {"hostname", host},
                {"device", 0},
                {"device_hex", "0000:19:00"},
                {"device_info", "NVIDIA H100 80GB HBM3"}};
  };
  return {{"version", 3},
          {"start_time", "2026-01-01 00:00:00"},
          {"args", {"./build/all_reduce_perf", "-J", "out.json", "-g", "4"}},
          {"env", {"HOME=/root", "NCCL_ALGO=Ring", "NCCL_DEBUG=INFO", "NCCL_TESTS_DEVICE=0", "SECRET=x"}},
          {"nccl_version", 22809},
          {"config",
           {{"nthreads", 1},
            {"ngpus", 4},
            {"minimum_bytes", 1024},
            {"maximum_bytes", 2048},
            {"step_factor", 2},
            {"warmup_iters", 1},
            {"iterations", 20},
            {"aggregated_iterations", 1},
            {"validation", 1},
            {"graph", 0},
            {"blocking_collectives", "false"},
            {"parallel_init", "false"},
            {"devices", {device(0, "node0"), device(4, "node0")}}}},
          {"results", {row(1024, 12.5, 11.5), row(2048, 20, 22)}},
          {"out_of_bounds", {{"count", 0}, {"okay", "true"}}},
          {"average_bus_bandwidth", {{"bandwidth", 2.5}, {"okay", "unchecked"}}},
          {"end_time", "2026-01-01 00:01:00"}};
}

class Files {
 public:
  Files() {
    char name[] = "/tmp/trimtab-nccl-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    directory_ = name;
  }
  ~Files() { std::filesystem::remove_all(directory_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  Result<Published> read(const json& run) { return read_published("nccl-tests", {write("run.json", run.dump())}); }
  std::string error(const json& run) {
    const auto result = read(run);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().kind == ErrorKind::kBadInput);
    return result.error().message;
  }

 private:
  std::string directory_;
};

Published good(Result<Published> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result).value();
}

std::optional<Statistics> statistics_of(const Published& published, const CostKey& key) {
  for (const Cost& cost : published.costs.at(0).costs) {
    if (cost.key == canonical(key)) return cost.statistics;
  }
  return std::nullopt;
}

CostKey collective(const std::string& primitive, std::int64_t bytes, std::int32_t ranks) {
  return {CostKind::kCollective, primitive, "float32", 0, 1, "default", bytes, ranks, "intra_node"};
}

}  // namespace

TEST_CASE("a run of nccl-tests becomes costs under what it says of its hardware") {
  Files files;
  const Published published = good(files.read(all_reduce_run()));
  REQUIRE(published.costs.size() == 1);
  const Fingerprint& fingerprint = published.costs[0].fingerprint;
  CHECK(fingerprint.device.at("model") == "NVIDIA H100 80GB HBM3");
  CHECK(fingerprint.software.at("nccl") == "2.28.9");
  CHECK(fingerprint.fabric.at("nodes") == "1");
  CHECK(fingerprint.fabric.at("gpus") == "8");
  CHECK(fingerprint.environment ==
        std::map<std::string, std::string>{{"NCCL_ALGO", "Ring"}, {"measured_by", "nccl-tests"}});
  CHECK(published.costs[0].costs.size() == 2);
  const auto small = statistics_of(published, collective("all_reduce", 1024, 8));
  REQUIRE(small.has_value());
  CHECK(small->count() == 2);  // out of place and in place
  CHECK(small->min() == 11500);
  CHECK(small->max() == 12500);
  CHECK(published.remarks.empty());
}

TEST_CASE("bytes are a rank's input, for every program") {
  Files files;
  for (const auto& [program, primitive, bytes] :
       std::vector<std::tuple<std::string, std::string, std::int64_t>>{{"all_gather", "all_gather", 128},
                                                                       {"reduce_scatter", "reduce_scatter", 1024},
                                                                       {"alltoall", "all_to_all", 1024},
                                                                       {"broadcast", "broadcast", 1024},
                                                                       {"reduce", "reduce", 1024}}) {
    INFO(program);
    json run = all_reduce_run();
    run["args"][0] = "/opt/nccl-tests/" + program + "_perf_mpi";
    CHECK(statistics_of(good(files.read(run)), collective(primitive, bytes, 8)).has_value());
  }
  json run = all_reduce_run();
  run["args"][0] = "sendrecv_perf";
  const CostKey transfer{CostKind::kPointToPoint, "send_recv", "", 0, 1, "default", 1024, 0, "intra_node"};
  CHECK(statistics_of(good(files.read(run)), transfer).has_value());
}

TEST_CASE("groups over several hosts are placed between nodes") {
  Files files;
  json run = all_reduce_run();
  run["config"]["devices"][1]["hostname"] = "node1";
  const Published published = good(files.read(run));
  CHECK(published.costs[0].fingerprint.fabric.at("nodes") == "2");
  CHECK(published.costs[0].fingerprint.fabric.at("gpus") == "4");
  CHECK(published.costs[0].costs.at(0).key.placement == "inter_node");
  run["config"]["devices"][1]["group"] = 1;  // split: each host for itself
  CHECK(good(files.read(run)).costs[0].costs.at(0).key.group_size == 4);
  CHECK(good(files.read(run)).costs[0].costs.at(0).key.placement == "intra_node");
}

TEST_CASE("single iterations are taken where the file has them, but for the skipped ones") {
  Files files;
  json run = all_reduce_run();
  run["results"][0]["out_of_place_per_iter"] = {{"skipped_iterations", 1}, {"times_us", {99.0, 12.0, 13.0}}};
  run["results"][0].erase("in_place");
  const auto statistics = statistics_of(good(files.read(run)), collective("all_reduce", 1024, 8));
  REQUIRE(statistics.has_value());
  CHECK(statistics->count() == 2);
  CHECK(statistics->max() == 13000);
}

TEST_CASE("what was left out or measured in a special way is remarked") {
  Files files;
  json run = all_reduce_run();
  run["config"]["graph"] = 3;
  run["results"][0]["size"] = 0;
  run["results"][1]["out_of_place"]["nwrong"] = nullptr;  // not checked
  const Published published = good(files.read(run));
  CHECK(published.costs[0].costs.size() == 1);
  REQUIRE(published.remarks.size() == 2);
  CHECK(published.remarks[0].find("CUDA graphs") != std::string::npos);
  CHECK(published.remarks[1].find("1 rows of 0 bytes") != std::string::npos);
}

TEST_CASE("files of one setup share a fingerprint and each counts by its content") {
  Files files;
  json other = all_reduce_run();
  other["args"][0] = "all_gather_perf";
  const std::string first = files.write("a.json", all_reduce_run().dump());
  const std::string second = files.write("b.json", other.dump());
  const std::string copy = files.write("c.json", all_reduce_run().dump());
  const Published published = good(read_published("nccl-tests", {first, second, copy}));
  REQUIRE(published.costs.size() == 3);
  CHECK(published.costs[0].fingerprint == published.costs[1].fingerprint);
  CHECK(published.costs[0].origin != published.costs[1].origin);
  CHECK(published.costs[0].origin == published.costs[2].origin);
}

TEST_CASE("what is not a whole, right run is refused with file and field") {
  Files files;
  const auto refused = [&](const char* pointer, const json& value, const char* expected) {
    json run = all_reduce_run();
    run[json::json_pointer(pointer)] = value;
    const std::string message = files.error(run);
    INFO(message);
    CHECK(message.find("run.json: ") != std::string::npos);
    CHECK(message.find(expected) != std::string::npos);
  };
  refused("/version", 4, "version");
  refused("/args/0", "./hypercube_perf", "args");
  refused("/args", json::array(), "args");
  refused("/nccl_version", "2.28", "nccl_version");
  refused("/config/ngpus", 0, "config.ngpus");
  refused("/config/devices", json::array(), "config.devices");
  refused("/config/devices/1/device_info", "NVIDIA A100", "GPUs of one model");
  refused("/config/aggregated_iterations", 4, "config.aggregated_iterations");
  refused("/out_of_bounds", nullptr, "out_of_bounds");
  refused("/out_of_bounds/count", 2, "out_of_bounds.count");
  refused("/results", json::array(), "results");
  refused("/results/1/size", -5, "results[1].size");
  refused("/results/1/type", "quarter", "results[1].type");
  refused("/results/1/redop", "max", "results[1].redop");
  refused("/results/1/in_place/time", "nan", "results[1].in_place.time");
  refused("/results/1/in_place/time", 0, "results[1].in_place.time");
  refused("/results/1/in_place/nwrong", 3.0, "results[1].in_place.nwrong");
  refused("/results/1/in_place", json{{"cpu_time", 5.0}, {"nwrong", 0.0}}, "results[1].in_place.cpu_time");
  json alone = all_reduce_run();
  alone["config"]["ngpus"] = 1;
  alone["config"]["devices"].erase(1);
  CHECK(files.error(alone).find("2 ranks or more") != std::string::npos);
  json empty = all_reduce_run();
  for (json& row : empty["results"]) row["size"] = 0;
  CHECK(files.error(empty).find("more than 0 bytes") != std::string::npos);
}

TEST_CASE("a file that is cut, a script or not there is refused by name") {
  Files files;
  const auto script =
      read_published("nccl-tests", {files.write("run.sh", "#!/bin/sh\n./build/all_reduce_perf -g 8\n")});
  REQUIRE_FALSE(script.ok());
  CHECK(script.error().message.find("run.sh: expected JSON, found a script") != std::string::npos);
  const std::string whole = all_reduce_run().dump();
  const auto cut = read_published("nccl-tests", {files.write("cut.json", whole.substr(0, whole.size() / 2))});
  REQUIRE_FALSE(cut.ok());
  CHECK(cut.error().message.find("cut.json") != std::string::npos);
  const auto absent = read_published("nccl-tests", {"/nonexistent/run.json"});
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().message.find("/nonexistent/run.json") != std::string::npos);
}

namespace {

// As all_reduce_perf prints it.
std::string printed_run(const std::string& end = "# Out of bounds values : 0 OK\n") {
  std::string text =
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
      "validation: "
      "1 graph: 0\n#\n# Using devices\n";
  for (int rank = 0; rank < 8; ++rank) {
    text += "#  Rank  " + std::to_string(rank) + " Group  0 Pid 1" + std::to_string(rank) + " on  node" +
            std::to_string(1 + rank / 4) + " device  " + std::to_string(rank % 4) +
            " [0009:01:00] NVIDIA GH200 120GB\n";
  }
  return text +
         "#\n#                                                              out-of-place                       "
         "in-place\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
         "busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
         "(GB/s)\n"
         "node1:10:10 [0] NCCL INFO something\n"
         "     1048576        262144     float     sum      -1    164.3    6.38   11.17      0    187.7    5.59    "
         "9.77      0\n"
         "   134217728      33554432     float     sum      -1   1916.4   70.04  122.57    N/A   1907.8   70.35  "
         "123.11    N/A\n" +
         end;
}

}  // namespace

TEST_CASE("what nccl-tests print is read like the document that they write") {
  Files files;
  const Published published = good(read_published("nccl-tests", {files.write("run.txt", printed_run())}));
  REQUIRE(published.costs.size() == 1);
  const Fingerprint& fingerprint = published.costs[0].fingerprint;
  CHECK(fingerprint.device.at("model") == "NVIDIA GH200 120GB");
  CHECK(fingerprint.fabric.at("nodes") == "2");
  CHECK(fingerprint.fabric.at("gpus") == "4");
  CHECK_FALSE(fingerprint.software.contains("nccl"));
  CHECK(published.remarks.size() == 2);  // neither its version nor its variables are printed
  REQUIRE(published.costs[0].costs.size() == 2);
  std::map<std::int64_t, double> means;
  for (const Cost& cost : published.costs[0].costs) {
    CHECK(cost.key.group_size == 8);
    means[cost.key.bytes] = cost.statistics.mean();
  }
  CHECK(means.at(1048576) == Approx(176000));
  CHECK(means.at(134217728) == Approx(1912100));
  const std::string versioned = "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n" + printed_run();
  const Published again = good(read_published("nccl-tests", {files.write("versioned.txt", versioned)}));
  CHECK(again.costs[0].fingerprint.software.at("nccl") == "2.28.9");
}

TEST_CASE("a printed run that did not end, has no heading or names no program is refused") {
  Files files;
  const auto refused = [&](const std::string& name, const std::string& text) {
    const auto read = read_published("nccl-tests", {files.write(name, text)});
    REQUIRE_FALSE(read.ok());
    return read.error().message;
  };
  CHECK(refused("cut.txt", printed_run("")).find("out_of_bounds") != std::string::npos);
  CHECK(refused("wrong.txt", printed_run("# Out of bounds values : 3 FAILED\n")).find("wrong") != std::string::npos);
  const std::string whole = printed_run();
  const std::size_t heading = whole.find("#       size");
  const std::string headless = whole.substr(0, heading) + whole.substr(whole.find('\n', heading) + 1);
  CHECK(refused("headless.txt", headless).find("headless.txt:17: expected the heading") != std::string::npos);
  const std::string nameless = whole.substr(whole.find('\n') + 1);
  CHECK(refused("nameless.txt", nameless).find("args") != std::string::npos);
  CHECK(read_published("nccl-tests", {files.write("all_reduce.txt", nameless)}).ok());
}
