#include "trace/events.hpp"

#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/random.hpp"
#include "jobs/coordinator_client.hpp"
#include "jobs/live_text.hpp"
#include "schema/record.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using nlohmann::json;

namespace {

constexpr std::uint64_t kBase = 1'700'000'000'000'000'000;

struct Chunk {
  explicit Chunk(std::uint32_t rank) {
    chunk.set_rank(rank);
    chunk.set_pid(1000 + rank);
    chunk.set_node("n0");
    chunk.set_base_ns(kBase);
    for (const char* name : {"", "trimtab", "op/a/forward", "gemm<\"x\">\n", "AllReduce", "feed", "main"}) {
      chunk.add_names(name);
    }
  }
  wire::TraceRecord& add(std::uint32_t kind, std::uint32_t name, std::int64_t begin, std::uint64_t duration) {
    wire::TraceRecord& record = *chunk.add_records();
    record.set_kind(kind);
    record.set_name(name);
    record.set_thread(77);
    record.set_begin_ns(begin);
    record.set_duration_ns(duration);
    return record;
  }
  void add_range(std::uint32_t id, std::int64_t begin, std::uint64_t duration) {
    wire::TraceRecord& range = add(record::kRange, 2, begin, duration);
    range.set_domain(1);
    range.set_flags(record::kPayloadValid);
    range.set_payload(4);
    range.add_detail(id & 0xffffU);
    range.add_detail(id >> 16U);
  }
  void add_launch(std::uint32_t correlation, std::uint32_t range) {
    wire::TraceRecord& launch = add(record::kLaunch, 0, -static_cast<std::int64_t>(kBase), 0);
    launch.set_payload(correlation);
    launch.set_domain(range);
  }
  void add_kernel(std::uint32_t correlation, std::int64_t begin, std::uint64_t duration) {
    wire::TraceRecord& kernel = add(record::kKernel, 3, begin, duration);
    kernel.set_payload(static_cast<std::int64_t>(correlation | std::uint64_t{3} << 32U));
    kernel.set_domain(128);
    kernel.set_thread(7);
    for (const std::uint32_t size : {2U, 1U, 256U, 1U, 1U}) kernel.add_detail(size);
  }
  wire::TraceChunk chunk;
};

json written(const std::vector<wire::TraceChunk>& chunks) {
  std::ostringstream out;
  TraceEvents events(out);
  for (const auto& chunk : chunks) CHECK(events.add(chunk));
  events.finish(R"({"remark":"x"})");
  return json::parse(out.str());
}

std::vector<json> of_phase(const json& document, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

}  // namespace

TEST_CASE("ranges, kernels, collectives and copies become tracks of their rank") {
  Chunk chunk(3);
  chunk.add_range(70'000, 1'500, 2'250);
  chunk.add_kernel(9, 4'000, 1'000);
  wire::TraceRecord& copy = chunk.add(record::kMemcpy, 0, 6'000, 10);
  copy.set_payload(4096);
  copy.set_domain(10);
  copy.set_thread(8);
  wire::TraceRecord& collective = chunk.add(record::kCollective, 4, 7'000, 100);
  collective.set_payload(1 << 20);
  collective.set_domain(5);
  collective.set_depth(24);
  for (const std::uint32_t detail : {8U, 3U, 1U, 1U, 2U, 9U}) collective.add_detail(detail);
  wire::TraceRecord& name = chunk.add(record::kThreadName, 6, 0, 0);
  name.set_domain(0);
  const json document = written({chunk.chunk});
  const auto slices = of_phase(document, "X");
  REQUIRE(slices.size() == 4);
  CHECK(slices[0].at("name") == "op/a/forward");
  CHECK(slices[0].at("ts") == 1.5);
  CHECK(slices[0].at("dur") == 2.25);
  CHECK(slices[0].at("pid") == 3);
  CHECK(slices[0].at("tid") == 77);
  CHECK(slices[0].at("args").at("payload") == 4);
  CHECK(slices[1].at("name") == "gemm<\"x\">\n");
  CHECK(slices[1].at("args").at("grid") == json({128, 2, 1}));
  CHECK(slices[1].at("args").at("block") == json({256, 1, 1}));
  CHECK(slices[2].at("args").at("bytes") == 4096);
  CHECK(slices[3].at("args").at("algorithm") == "ring");
  CHECK(slices[3].at("args").at("protocol") == "simple");
  CHECK(slices[3].at("args").at("communicator") == "feed");
  CHECK(slices[3].at("args").at("channels") == 24);
  std::map<std::int64_t, std::string> tracks;
  for (const json& meta : of_phase(document, "M")) {
    if (meta.at("name") == "thread_name") tracks[meta.at("tid").get<std::int64_t>()] = meta.at("args").at("name");
    if (meta.at("name") == "process_name") CHECK(meta.at("args").at("name") == "rank 3 (n0, process 1003)");
  }
  CHECK(tracks.at(77) == "main");
  CHECK(tracks.at(slices[1].at("tid").get<std::int64_t>()) == "device 0 stream 7");
  CHECK(tracks.at(slices[3].at("tid").get<std::int64_t>()) == "communicator feed");
  CHECK(document.at("otherData").at("remark") == "x");
}

TEST_CASE("a device whose UUID is told is named by it, and not by a number of the process's own alone") {
  Chunk chunk(3);
  chunk.chunk.add_names("GPU-1234");
  chunk.add(record::kDevice, 7, 0, 0).set_depth(0);
  chunk.add_kernel(9, 4'000, 1'000);
  const json document = written({chunk.chunk});
  std::vector<std::string> tracks;
  for (const json& meta : of_phase(document, "M")) {
    if (meta.at("name") == "thread_name") tracks.push_back(meta.at("args").at("name"));
  }
  CHECK(tracks == std::vector<std::string>{"device 0 (GPU-1234) stream 7"});
}

TEST_CASE("arrows go from the launching range to the kernel, in whatever order they come") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<int> order = {0, 1, 2, 3};
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Chunk chunk(0);
    for (const int one : order) {
      if (one == 0) chunk.add_range(5, 1'000, 500);
      if (one == 1) chunk.add_launch(9, 5);
      if (one == 2) chunk.add_kernel(9, 4'000, 100);
      if (one == 3) chunk.add_kernel(9, 5'000, 100);  // a graph's second
    }
    const json document = written({chunk.chunk});
    const auto begins = of_phase(document, "s");
    const auto ends = of_phase(document, "f");
    REQUIRE(begins.size() == 2);
    REQUIRE(ends.size() == 2);
    CHECK(begins[0].at("ts") == 1.0);
    CHECK(begins[0].at("tid") == 77);
    std::set<double> at;
    for (const json& end : ends) at.insert(end.at("ts").get<double>());
    CHECK(at == std::set<double>{4.0, 5.0});
    CHECK(begins[0].at("id") == ends[0].at("id"));
    CHECK(begins[0].at("id") != begins[1].at("id"));
  }
}

TEST_CASE("a kernel launched in no range has no arrow, and what is forgotten is bounded") {
  TraceFlows flows(100);
  CHECK(flows.add_launch(1, 0).empty());
  CHECK(flows.add_kernel(1, {1, 1}).empty());
  for (std::uint32_t i = 2; i < 2000; ++i) CHECK(flows.add_kernel(i, {1, i}).empty());
  CHECK(flows.add_range(5, {2, 2}).empty());
  CHECK(flows.add_launch(2, 5).empty());  // forgotten
  CHECK(flows.add_launch(1999, 5).size() == 1);
  CHECK(flows.without_arrow() == 1998);
}

TEST_CASE("nodes whose clocks are known stand on one") {
  std::ostringstream out;
  TraceEvents events(out);
  events.set_clock("n0", 3'000'000'000);
  events.set_clock("n1", -250'000);
  Chunk first(0);
  first.chunk.set_base_ns(kBase + 3'000'000'000);
  first.add_range(0, 0, 100);
  Chunk second(1);
  second.chunk.set_node("n1");
  second.chunk.set_base_ns(kBase - 250'000);
  second.add_range(0, 1'000, 100);
  CHECK(events.add(first.chunk));
  CHECK(events.add(second.chunk));
  events.finish("{}");
  const auto slices = of_phase(json::parse(out.str()), "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].at("ts") == 0);
  CHECK(slices[1].at("ts") == 1);
}

TEST_CASE("times before the first record are negative, ranges across threads stand apart, processes stay apart") {
  Chunk first(0);
  first.add_range(0, -2'500, 100);
  first.add_range(0, 0, 100);
  first.chunk.mutable_records(1)->set_flags(record::kCrossThread);
  Chunk second(1);
  second.add_range(0, 5, 5);
  Chunk helper(0);  // another process of rank 0
  helper.chunk.set_pid(5);
  helper.add_range(0, 5, 5);
  const json document = written({first.chunk, second.chunk, helper.chunk});
  CHECK(of_phase(document, "X")[0].at("ts") == -2.5);
  CHECK(of_phase(document, "b").size() == 1);
  CHECK(of_phase(document, "e").size() == 1);
  std::set<std::int64_t> processes;
  for (const json& event : of_phase(document, "X")) processes.insert(event.at("pid").get<std::int64_t>());
  CHECK(processes.size() == 3);
}

TEST_CASE("a chunk that contradicts itself is left out, and the document stays valid") {
  std::ostringstream out;
  TraceEvents events(out);
  Chunk chunk(0);
  chunk.add_range(0, 0, 1);
  chunk.chunk.mutable_records(0)->set_name(99);
  CHECK_FALSE(events.add(chunk.chunk));
  Chunk good(0);
  good.add_range(0, 0, 1);
  CHECK(events.add(good.chunk));
  events.finish("{}");
  CHECK(of_phase(json::parse(out.str()), "X").size() == 1);
  CHECK(events.counts().malformed == 1);
  std::ostringstream nothing;
  TraceEvents none(nothing);
  none.finish("{}");
  CHECK(json::parse(nothing.str()).at("traceEvents").empty());
}

TEST_CASE("what ranks do is a table of shares, then what takes longest") {
  const auto ranks = read_reply<api::LiveJob>(R"({"job":"a","ranks":[
    {"rank":0,"node":"n0","source":"kernels","steps":120,"step":119,"steps_measured":32,"step_ms":250,"steps_per_second":4,
     "step_found_by":"ranges","shares":{"computation":0.7,"exposed_communication":0.2,"exposed_copy":0.01,"idle":0.09,
     "overlapped_communication":0.15},"age_s":0.5,
     "streams":[{"stream":7,"computation":0.031,"communication":0.0,"copy":0.002},
                {"stream":13,"computation":0.0,"communication":0.345,"copy":0.0}],
     "busiest":[{"name":"gemm","class":"gemm","collective":false,"share":0.5,"count":100,"mean_us":1000},
                {"name":"ncclDevKernel_AllReduce","class":"other","collective":true,"share":0.2,"count":4,"mean_us":50}]},
    {"rank":1,"node":"n1","source":"kernels","steps":7,"steps_measured":0,"step_found_by":"period","confidence":0.93,
     "age_s":9}]})");
  REQUIRE(ranks.ok());
  REQUIRE(ranks->ranks.size() == 2);
  const std::string text = describe(ranks->ranks);
  INFO(text);
  for (const char* part : {"119", "4.00", "250", "70.0 %", "20.0 %", "9.0 %", "15.0 %", "step found (0.93)", "9 s ago",
                           "gemm", "ncclDevKernel_AllReduce", "25.0 %"}) {
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("collective") > text.find("kernel"));
  // The busier stream first, each with its own shares; a rank without streams has no row.
  const std::size_t busy = text.find("0      13    0.0 %         34.5 %   0.0 %");
  const std::size_t idle = text.find("0       7    3.1 %          0.0 %   0.2 %");
  CHECK(busy != std::string::npos);
  CHECK(idle != std::string::npos);
  CHECK(busy < idle);
  CHECK(describe(std::vector<api::LiveRank>{}).find("no rank") != std::string::npos);
  CHECK_FALSE(read_reply<api::LiveJob>("[]").ok());
  CHECK_FALSE(read_reply<api::LiveJob>("{").ok());
}

TEST_CASE("what a rank receives from the stages beside it has a column of its own") {
  const auto ranks = read_reply<api::LiveJob>(R"json({"job":"a","ranks":[
    {"rank":0,"source":"ranges","steps_measured":4,"busiest":[
      {"name":"op/head/forward","share":0.4},{"name":"transfer/recv","share":0.271},{"name":"transfer/send","share":0.05}]},
    {"rank":1,"source":"kernels","steps_measured":4,"busiest":[
      {"name":"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)","collective":true,"share":0.125}]},
    {"rank":2,"source":"ranges","steps_measured":4,"busiest":[{"name":"comm/all_reduce/2","share":0.3}]},
    {"rank":3,"source":"ranges","busiest":[{"name":"transfer/recv","share":0.25}]}]})json");
  REQUIRE(ranks.ok());
  std::istringstream lines(describe(ranks->ranks));
  std::string line;
  REQUIRE(std::getline(lines, line));
  const std::size_t end = line.find("receiving") + std::string("receiving").size();
  const auto cell = [&lines, &line, end] {
    REQUIRE(std::getline(lines, line));
    const std::string left = line.substr(0, end);
    return left.substr(left.rfind("  ") + 2);
  };
  CHECK(cell() == "27.1 %");
  CHECK(cell() == "12.5 %");
  CHECK(cell() == "-");
  CHECK(cell() == "-");  // no step of it was measured
}

TEST_CASE("where steps of devices went is a table by stage and rank, with gaps where records do not tell") {
  const auto ranks = read_reply<api::LiveJob>(R"json({"job":"a","ranks":[
    {"rank":3,"source":"kernels","steps_measured":4,"shares":{"computation":0.5,"exposed_communication":0.3,"idle":0.2},
     "parts":{"stage":1,"collectives":0.021,"gradients":0.032,"transfers":0.043,"bubble":0.204,"launch_bound":0.12,
              "data":0.055}},
    {"rank":4,"source":"kernels","steps_measured":4,"shares":{"computation":0.5,"exposed_communication":0.3,"idle":0.2},
     "parts":{"transfers":0.043}},
    {"rank":5,"source":"ranges","steps_measured":4,"shares":{"computation":1}}]})json");
  REQUIRE(ranks.ok());
  const std::string text = describe(ranks->ranks);
  INFO(text);
  const std::size_t table = text.find("stage  rank  compute  collectives");
  REQUIRE(table != std::string::npos);
  std::istringstream lines(text.substr(table));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    std::erase(rows.back(), "%");
  }
  REQUIRE(rows.size() == 3);
  using Row = std::vector<std::string>;
  CHECK(rows[1] == Row{"1", "3", "50.0", "2.1", "3.2", "4.3", "20.4", "0.0", "12.0", "5.5", "2.5"});
  CHECK(rows[2] == Row{"-", "4", "50.0", "-", "-", "4.3", "-", "0.0", "-", "-", "20.0"});
}

TEST_CASE("streams beyond what a page holds are counted") {
  std::vector<api::LiveRank> ranks(10);
  for (api::LiveRank& rank : ranks) rank.streams.assign(3, {1, 0.5, 0, 0});
  CHECK(describe(ranks).find("and 6 more") != std::string::npos);
  ranks.resize(8);
  CHECK(describe(ranks).find("more") == std::string::npos);
}
