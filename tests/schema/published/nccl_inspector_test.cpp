// What NCCL's Inspector plugin writes, as costs.

#include <catch2/catch.hpp>
#include <fstream>

#include "../sample_costs.hpp"
#include "schema/published.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// A line as the plugin writes it: the form is its own, the numbers are made up.
struct Line {
  int rank = 0;
  int ranks = 2;
  int nodes = 1;
  std::string function = "AllReduce";
  int sequence = 7;
  long bytes = 1048576;
  long us = 100;
  std::string clock = "kernel_gpu";
  std::string more = {};

  [[nodiscard]] std::string text() const {
    return R"({"header":{"id":"0xe62dedaa97644a","comm_name":"unknown","rank":)" + std::to_string(rank) +
           R"(,"n_ranks":)" + std::to_string(ranks) + R"(,"nnodes":)" + std::to_string(nodes) +
           R"(},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"9019a1912","rec_mechanism":)" +
           R"("nccl_profiler_interface","dump_timestamp_us":1752867229276385,"hostname":"n1","pid":438776},)" +
           R"("coll_perf":{"coll":")" + function + R"(","coll_sn":)" + std::to_string(sequence) +
           R"(,"coll_msg_size_bytes":)" + std::to_string(bytes) + R"(,"coll_exec_time_us":)" + std::to_string(us) +
           R"(,"coll_timing_source":")" + clock + R"(","coll_algobw_gbs":418.439467,"coll_busbw_gbs":366.134533)" +
           more + "}}\n";
  }
};

struct Logs {
  TemporaryDirectory directory;
  std::vector<std::string> paths;

  Logs& add(const std::string& text) {
    paths.push_back(directory.path() + "/n1-pid" + std::to_string(paths.size()) + ".log");
    std::ofstream(paths.back(), std::ios::binary) << text;
    return *this;
  }
  [[nodiscard]] Published read() const {
    auto published = read_published("nccl-inspector", paths);
    INFO((published.ok() ? "" : published.error().message));
    REQUIRE(published.ok());
    return *published;
  }
  [[nodiscard]] std::string refusal() const {
    const auto published = read_published("nccl-inspector", paths);
    REQUIRE_FALSE(published.ok());
    CHECK(published.error().kind == ErrorKind::kBadInput);
    return published.error().message;
  }
};

std::string told(const Published& published) {
  std::string text;
  for (const PublishedCosts& profile : published.costs) {
    for (const Cost& cost : profile.costs) {
      text += profile.source + ": " + describe(cost.key) + " " + std::to_string(cost.statistics.count()) + "x" +
              std::to_string(cost.statistics.min()) + "\n";
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a collective that all ranks tell takes as long as the shortest of them says") {
  Logs logs;
  logs.add(Line{.us = 100}.text() + Line{.sequence = 8, .us = 40}.text());
  logs.add(Line{.rank = 1, .us = 60}.text() + Line{.rank = 1, .sequence = 8, .us = 90}.text());
  CHECK(told(logs.read()) ==
        "import:nccl-inspector ranks-clock: collective all_reduce bytes=1048576 group_size=2 intra_node 2x40000\n");
  const auto folder = read_published("nccl-inspector", {logs.directory.path()});
  REQUIRE(folder.ok());
  CHECK(told(*folder) == told(logs.read()));
}

TEST_CASE("a collective that some ranks do not tell contains waiting") {
  Logs logs;
  logs.add(Line{.us = 100}.text());
  CHECK(told(logs.read()) ==
        "import:nccl-inspector device-clock waiting: collective all_reduce bytes=1048576 group_size=2 intra_node "
        "1x100000\n");
}

TEST_CASE("NCCL's count becomes a rank's input, and what says how it ran is kept") {
  const auto of = [](Line line) {
    Logs logs;
    const std::string first = line.text();
    line.rank = 1;
    return told(logs.add(first + line.text()).read());
  };
  CHECK(of({.nodes = 2, .function = "ReduceScatter", .bytes = 1000})
            .find("reduce_scatter bytes=2000 group_size=2 inter_node") != std::string::npos);
  CHECK(of({.function = "AllGather", .bytes = 1000}).find("all_gather bytes=1000 ") != std::string::npos);
  CHECK(of({.more = R"(,"coll_algo":"RING","coll_proto":"LL128")"}).find("intra_node ring ll128 ") !=
        std::string::npos);
}

TEST_CASE("sends are kept with their waiting, where it is known whether their ranks share a node") {
  const std::string send =
      R"({"header":{"id":"0x1","rank":0,"n_ranks":4,"nnodes":1},"metadata":{"hostname":"n1"},"p2p_perf":{"p2p":"Send",)"
      R"("p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":4096,"p2p_exec_time_us":12,"p2p_timing_source":"kernel_gpu"}})";
  CHECK(told(Logs().add(send).read()) ==
        "import:nccl-inspector device-clock waiting: point_to_point send_recv bytes=4096 intra_node 1x12000\n");
  std::string far = send;
  far.replace(far.find("\"nnodes\":1"), 10, "\"nnodes\":2");
  const Published published = Logs().add(far + "\n" + Line{}.text()).read();
  CHECK(told(published).find("send_recv") == std::string::npos);
  CHECK(published.remarks.at(1).find("1 sends and receives are left out") == 0);
}

TEST_CASE("objects over several lines and a cut last one are read as far as they go") {
  std::string spread = Line{}.text();
  for (std::size_t at = 0; (at = spread.find(",\"", at)) != std::string::npos; at += 2) spread.replace(at, 1, ",\n  ");
  Logs logs;
  logs.add(spread + Line{.sequence = 8}.text().substr(0, 80));
  const Published published = logs.read();
  CHECK(told(published).find("1x100000") != std::string::npos);
  CHECK(published.remarks.at(1).find("n1-pid0.log: its last object is cut short") != std::string::npos);
}

TEST_CASE("times of the host are no collective's") {
  Logs logs;
  logs.add(Line{.clock = "collective_cpu"}.text());
  CHECK(logs.refusal().find("all 1 times are the host's") != std::string::npos);
}

TEST_CASE("a rank that tells a collective twice is heard once") {
  Logs logs;
  logs.add(Line{.us = 100}.text() + Line{.us = 10}.text() + Line{.rank = 1, .us = 90}.text());
  CHECK(told(logs.read()).find("1x90000") != std::string::npos);
}

TEST_CASE("what is no log of the plugin is called by its name, with the line where it goes wrong") {
  CHECK(Logs().add("#!/bin/sh\n").refusal().find("it is a script") != std::string::npos);
  CHECK(Logs().add(R"({"traceEvents":[]})").refusal().find("another JSON document; expected what NCCL's Inspector") !=
        std::string::npos);
  CHECK(Logs().add("").refusal().find("an empty file") != std::string::npos);
  const std::string broken = Logs().add(Line{}.text() + "oops\n").refusal();
  CHECK(broken.find("n1-pid0.log: line 2: expected a JSON object, found \"oops\"") != std::string::npos);
  std::string text = Line{}.text();
  text.replace(text.find("\"rank\":0"), 8, "\"rank\":\"x\"");
  CHECK(Logs().add(text).refusal().find("line 1: header.rank: expected a rank, found \"x\"") != std::string::npos);
}
