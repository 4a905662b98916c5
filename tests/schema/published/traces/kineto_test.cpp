// PyTorch Profiler's traces: what is read of them, and how what is none is refused.

#include <zlib.h>

#include <catch2/catch.hpp>

#include "../../sample_costs.hpp"
#include "made_trace.hpp"
#include "read_all.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

struct Folder {
  TemporaryDirectory directory;

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = directory.path() + "/" + name;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
    std::fclose(file);
    return path;
  }
};

std::string packed(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string bytes(deflateBound(&stream, text.size()) + 64, '\0');
  std::string copy = text;
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  bytes.resize(bytes.size() - stream.avail_out);
  deflateEnd(&stream);
  return bytes;
}

TracedRank read(const std::string& bytes, const std::string& name = "trace.json") {
  const Folder folder;
  auto ranks = read_all({folder.write(name, bytes)});
  INFO((ranks ? "" : ranks.error().message));
  REQUIRE(ranks.ok());
  REQUIRE(ranks->size() == 1);
  return ranks->front();
}

std::string refusal(const std::string& bytes, const std::string& name = "trace.json") {
  const Folder folder;
  const auto ranks = read_all({folder.write(name, bytes)});
  REQUIRE_FALSE(ranks.ok());
  CHECK(ranks.error().kind == ErrorKind::kBadInput);
  CHECK(ranks.error().message.find(name) != std::string::npos);
  return ranks.error().message;
}

}  // namespace

TEST_CASE("a trace tells kernels by kind, their launches, steps, waiting for data and the device") {
  MadeTrace made;
  made.step(7, 0, 100).data(1, 9).copy(20, 10);
  made.kernel("void gemm<float>(int)", 30, 40.25).kernel(kAllReduce, 75, 20, 5, 20).kernel(kAllGather, 95, 1, 0, 21);
  made.reserved(50, 1 << 20).reserved(60, 1 << 19);
  const TracedRank rank = read(made.text(3, 8));
  CHECK(rank.on_device);
  CHECK(rank.rank == 3);
  CHECK(rank.world_size == 8);
  CHECK(rank.node == "node1");
  CHECK(rank.facts.device_name == "NVIDIA H100 80GB HBM3");
  CHECK(rank.facts.memory_total_bytes == 85'899'345'920);
  CHECK(rank.facts.memory_used_bytes == 1 << 20);
  CHECK(rank.facts.workers == 0);
  REQUIRE(rank.steps.size() == 1);
  CHECK(rank.steps[0].number == 7);
  CHECK(rank.steps[0].end_ns - rank.steps[0].begin_ns == 100'000);
  REQUIRE(rank.data.size() == 1);
  CHECK(rank.data[0].begin_ns == 1'000);
  REQUIRE(rank.work.size() == 4);
  CHECK(rank.work[0].kind == TracedKind::kCopy);
  CHECK(rank.work[1].kind == TracedKind::kComputation);
  CHECK(rank.work[1].end_ns - rank.work[1].begin_ns == 40'250);
  CHECK(rank.work[1].launched_ns == 25'000);
  CHECK(rank.work[2].kind == TracedKind::kAllReduce);
  CHECK(rank.work[3].kind == TracedKind::kAllGather);
  CHECK(rank.work[3].launched_ns == TracedWork::kNotTold);
}

TEST_CASE("gzip, a list of events and a byte order mark change nothing") {
  const std::string text = eight_steps().text();
  const TracedRank plain = read(text);
  for (const TracedRank& other :
       {read(packed(text), "trace.json.gz"), read(packed(text.substr(0, 999)) + packed(text.substr(999)), "two.gz"),
        read("\xef\xbb\xbf" + text), read("[" + eight_steps().events() + "]", "list.json")}) {
    CHECK(other.work.size() == plain.work.size());
    CHECK(other.work.back().end_ns == plain.work.back().end_ns);
    CHECK(other.steps.size() == 8);
  }
}

TEST_CASE("a kernel of NCCL that serves all collectives is named by its arguments") {
  MadeTrace made;
  for (const char* name : {"_allgather_base", "allreduce_coalesced", "reduce_scatter_tensor_coalesced", "send", ""}) {
    made.event(R"j({"ph":"X","cat":"kernel","name":"ncclDevKernel_Generic_4(x)","ts":1,"dur":1,)j"
               R"j("args":{"Collective name":")j" +
               std::string(name) + "\"}}");
  }
  const TracedRank rank = read(made.text());
  REQUIRE(rank.work.size() == 5);
  CHECK(rank.work[0].kind == TracedKind::kAllGather);
  CHECK(rank.work[1].kind == TracedKind::kAllReduce);
  CHECK(rank.work[2].kind == TracedKind::kReduceScatter);
  CHECK(rank.work[3].kind == TracedKind::kSendReceive);
  CHECK(rank.work[4].kind == TracedKind::kCollective);
}

TEST_CASE("what was handed out before the recording is left out, by stream") {
  MadeTrace made;
  made.step(1, 0, 100);
  made.kernel("old", 0, 10, 0).kernel("new", 20, 10).kernel("unseen_call", 40, 10, 0);
  made.kernel("other_stream", 5, 10, 0, 8);
  const TracedRank rank = read(made.text());
  REQUIRE(rank.work.size() == 3);
  CHECK(rank.work[0].end_ns == 15'000);  // a stream of which no call is recorded
  CHECK(rank.work[1].begin_ns == 20'000);
  CHECK(rank.work[2].begin_ns == 40'000);
}

TEST_CASE("a trace without a device is of the host's operators") {
  MadeTrace made;
  made.step(1, 0, 100).host_operator("aten::mm", 10, 40).host_operator("gloo:all_reduce", 50, 20);
  made.host_operator("DistributedDataParallel.forward", 0, 90);
  const TracedRank rank = read(made.text());
  CHECK_FALSE(rank.on_device);
  CHECK(rank.facts.device == "cpu");
  REQUIRE(rank.work.size() == 2);
  CHECK(rank.work[0].kind == TracedKind::kComputation);
  CHECK(rank.work[1].kind == TracedKind::kAllReduce);
  REQUIRE(rank.remarks.size() == 1);
  CHECK(rank.remarks[0].find("ProfilerActivity.CUDA") != std::string::npos);
}

TEST_CASE("what is no trace is called by its look, with what was expected") {
  struct Look {
    std::string bytes;
    const char* name;
    const char* says;
  };
  const Look looks[] = {
      {"", "trace.json", "an empty file"},
      {" \n", "trace.json", "blank"},
      {"#!/bin/sh\npython train.py\n", "train.sh", "a script"},
      {"model:\n  layers: 4\n", "job.yaml", "YAML, beginning"},
      {"--- \nlayers: 4\n", "job.yaml", "YAML"},
      {"step,loss\n1,2\n", "loss.csv", "text, beginning"},
      {"\xff\xfe{\0}\0", "trace.json", "UTF-16 (a byte order mark at byte 0)"},
      {"PK\x03\x04zip", "trace.json", "a zip archive"},
      {packed("#!/bin/sh\n"), "trace.json.gz", "gzip of a script"},
      {packed(packed("{}")), "trace.json.gz", "gzip of gzip once more"},
      {"QDSTRM", "report.nsys-rep", "nsys export --type sqlite"},
      {R"({"schema":"1.0.2-chakra.0.0.4","pid":1,"nodes":[{"id":1,"name":"aten::add"}]})", "et.json",
       "an execution trace of PyTorch (Chakra)"},
      {R"({"traceEvents":[{"ph":"X","cat":"devtools","name":"x","ts":1,"dur":2}]})", "chrome.json",
       "a chrome trace of another program: none of its 1 events is an operator, a step or a kernel of PyTorch "
       "Profiler (categories: \"devtools\")"},
      {R"({"traceEvents":[]})", "chrome.json", "a chrome trace without events"},
      {R"({"schema":"trimtab.plan/1","stages":[]})", "plan.json", "another JSON document, with \"schema\", \"stages\""},
      {"[1, 2]", "list.json", "JSON that is no object"},
  };
  for (const Look& look : looks) {
    INFO(look.says);
    const std::string message = refusal(look.bytes, look.name);
    CHECK(message.find(look.says) != std::string::npos);
    CHECK(message.find("expected a trace of PyTorch Profiler") != std::string::npos);
  }
  CHECK(refusal(R"({"traceEvents":[{"ph":"X","cat":"mtia_ccp_events","name":"x","ts":1,"dur":2}]})").find("MTIA") !=
        std::string::npos);
}

TEST_CASE("a trace that is cut short or damaged says where") {
  const std::string text = eight_steps().text();
  CHECK(refusal(text.substr(0, text.size() / 2)).find("no whole JSON: at line") != std::string::npos);
  const std::string gzip = packed(text);
  CHECK(refusal(gzip.substr(0, gzip.size() / 2), "cut.json.gz").find("the file is cut short") != std::string::npos);
  std::string damaged = gzip;
  for (std::size_t i = 40; i < 60; ++i) damaged[i] = '\x55';
  CHECK(refusal(damaged, "damaged.json.gz").find("damaged.json.gz") != std::string::npos);
  CHECK(refusal(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1e300,"dur":2}]})")
            .find("beyond any clock") != std::string::npos);
}

TEST_CASE("ranks are numbered by the traces, else by the files' names, else in order; a folder holds all") {
  const Folder folder;
  const std::string text = eight_steps().text(-1);
  (void)folder.write("run-rank-5.json", text);
  (void)folder.write("run-rank-2.json.gz", packed(text));
  (void)folder.write("notes.txt", "not a trace");
  const auto named = read_all({folder.directory.path()});
  REQUIRE(named.ok());
  REQUIRE(named->size() == 2);
  CHECK(named->at(0).rank == 2);
  CHECK(named->at(1).rank == 5);
  const std::string a = folder.write("a.json", text);
  const std::string b = folder.write("b.json", text);
  const auto in_order = read_all({b, a});
  REQUIRE(in_order.ok());
  CHECK(in_order->at(0).file == b);
  CHECK(number_ranks(*in_order)->counted);
  CHECK(number_ranks(*in_order)->numbers == std::vector<std::int32_t>{0, 1});
  CHECK(number_ranks(*named)->numbers == std::vector<std::int32_t>{2, 5});
  const std::string first = folder.write("first.json", eight_steps().text(1, 2));
  const std::string again = folder.write("again.json", eight_steps().text(1, 2));
  const auto twice = read_all({first, again});
  REQUIRE(twice.ok());
  CHECK(number_ranks(*twice).error().message ==
        again + ": it is of rank 1, and so is " + first + "; give one trace of each rank");
  const Folder empty;
  CHECK(read_all({empty.directory.path()}).error().message.find("an empty directory") != std::string::npos);
  CHECK(read_all({empty.directory.path() + "/none.json"}).error().message.find("cannot read") == 0);
}
