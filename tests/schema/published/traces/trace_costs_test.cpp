// Costs of collectives out of traces: what each rank's own time is, and what the transfer took.

#include <catch2/catch.hpp>

#include "../../sample_costs.hpp"
#include "made_trace.hpp"
#include "schema/published.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

struct Traces {
  TemporaryDirectory directory;
  std::vector<std::string> paths;

  Traces& add(const std::string& text) {
    const std::string path = directory.path() + "/trace" + std::to_string(paths.size()) + ".json";
    std::FILE* file = std::fopen(path.c_str(), "wb");
    REQUIRE(file != nullptr);
    REQUIRE(std::fwrite(text.data(), 1, text.size(), file) == text.size());
    std::fclose(file);
    paths.push_back(path);
    return *this;
  }
  [[nodiscard]] Published read(std::int32_t devices_per_node = 0) const {
    ProfileSupplement supplement;
    supplement.devices_per_node = devices_per_node;
    auto published = read_published("traces", paths, supplement);
    INFO((published.ok() ? "" : published.error().message));
    REQUIRE(published.ok());
    return *published;
  }
  [[nodiscard]] std::string refusal() const {
    const auto published = read_published("traces", paths);
    REQUIRE_FALSE(published.ok());
    CHECK(published.error().kind == ErrorKind::kBadInput);
    return published.error().message;
  }
};

const MadeTrace::Collective kMebi{"allreduce", 262144, 262144};  // 1 MiB of float32

// Two steps of one all-reduce each, which this rank enters late.
MadeTrace rank_that_comes(double late, const MadeTrace::Collective& what = kMebi, const char* kernel = kAllReduce) {
  MadeTrace trace;
  for (int step = 0; step < 2; ++step) {
    const double begin = 10'000.0 * step;
    trace.step(step + 3, begin, 10'000).kernel("gemm", begin + 10, 500 + late);
    trace.collective(kernel, begin + 1000 + late, 2000 - late, what);
  }
  return trace;
}

const PublishedCosts& only(const Published& published) {
  REQUIRE(published.costs.size() == 1);
  return published.costs.front();
}

bool remarks(const Published& published, const std::string& text) {
  for (const std::string& remark : published.remarks) {
    if (remark.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("with every rank's trace a collective takes as long as the last rank to come says") {
  Traces traces;
  traces.add(rank_that_comes(0).text(0, 2)).add(rank_that_comes(1200).text(1, 2));
  const Published published = traces.read();
  const PublishedCosts& profile = only(published);
  CHECK(profile.source == "import:pytorch-profiler alone ranks-clock");
  REQUIRE(profile.costs.size() == 1);
  const Cost& cost = profile.costs.front();
  CHECK(describe(cost.key) == "collective all_reduce float32 bytes=1048576 group_size=2 intra_node");
  CHECK(cost.statistics.count() == 2);
  CHECK(cost.statistics.min() == 800'000);
  CHECK(cost.statistics.max() == 800'000);
  CHECK(published.remarks.empty());
  CHECK(profile.fingerprint.device.at("model") == "NVIDIA H100 80GB HBM3");
  CHECK(profile.fingerprint.software.at("nccl") == "2.21.5");
  CHECK(profile.fingerprint.fabric.at("nodes") == "1");
  CHECK(profile.fingerprint.environment.at("measured_by") == "pytorch-profiler");
}

TEST_CASE("one rank's times contain waiting, and are stored so") {
  Traces traces;
  traces.add(rank_that_comes(0).text(0, 2));
  const Published published = traces.read(8);
  CHECK(only(published).source == "import:pytorch-profiler alone device-clock waiting");
  CHECK(only(published).costs.front().statistics.min() == 2'000'000);
  CHECK(remarks(published, "give the traces of all 2 ranks, not 1"));
}

TEST_CASE("which ranks share a node is said by the hosts, or asked for") {
  Traces two;
  two.add(rank_that_comes(0).text(0, 2, "a")).add(rank_that_comes(100).text(1, 2, "b"));
  CHECK(only(two.read()).costs.front().key.placement == "inter_node");
  CHECK(only(two.read()).fingerprint.fabric.at("nodes") == "2");
  Traces one;
  one.add(rank_that_comes(0).text(0, 2));
  const std::string refusal = one.refusal();
  CHECK(refusal.find("which ranks share a node") != std::string::npos);
  CHECK(refusal.find("--devices-per-node N") != std::string::npos);
  CHECK(only(one.read(8)).costs.front().key.placement == "intra_node");
  CHECK(only(one.read(1)).costs.front().key.placement == "inter_node");
}

TEST_CASE("what was computed beside a collective of any of its ranks is its condition") {
  MadeTrace busy = rank_that_comes(1200);
  busy.kernel("gemm", 2300, 600).kernel("gemm", 12'300, 600);
  Traces traces;
  traces.add(rank_that_comes(0).text(0, 2)).add(busy.text(1, 2));
  CHECK(only(traces.read()).source == "import:pytorch-profiler beside-computation ranks-clock");
}

TEST_CASE("a cost's bytes are a rank's input, of every kind") {
  const auto key = [](const MadeTrace::Collective& what, const char* kernel) {
    Traces traces;
    traces.add(rank_that_comes(0, what, kernel).text(0, 2)).add(rank_that_comes(100, what, kernel).text(1, 2));
    return describe(only(traces.read()).costs.front().key);
  };
  CHECK(key({"_allgather_base", 1000, 2000, "BFloat16"}, kAllGather) ==
        "collective all_gather bfloat16 bytes=2000 group_size=2 intra_node");
  CHECK(key({"_reduce_scatter_base", 2000, 1000, "Half"}, "ncclDevKernel_ReduceScatter_Sum_f16_RING_SIMPLE(x)") ==
        "collective reduce_scatter float16 bytes=4000 group_size=2 intra_node");
  CHECK(key({"all_to_all", 512, 512, "Float"}, "ncclDevKernel_SendRecv(x)") ==
        "collective all_to_all float32 bytes=2048 group_size=2 intra_node");
}

TEST_CASE("ranks that tell different collectives are not joined") {
  Traces traces;
  MadeTrace longer = rank_that_comes(1200);
  longer.collective(kAllReduce, 5000, 10, kMebi);
  traces.add(rank_that_comes(0).text(0, 2)).add(longer.text(1, 2));
  // The step in which one rank has a collective more tells nothing; the other one does.
  const Published published = traces.read();
  REQUIRE(published.costs.size() == 2);
  std::uint64_t joined = 0;
  std::uint64_t waiting = 0;
  for (const PublishedCosts& profile : published.costs) {
    const bool waits = profile.source.find("waiting") != std::string::npos;
    for (const Cost& cost : profile.costs) (waits ? waiting : joined) += cost.statistics.count();
  }
  CHECK(joined == 1);
  CHECK(waiting == 3);
}

TEST_CASE("of a send and its receive, the send counts where the receiver waited for it") {
  const auto trace = [](int rank, double begin, double length) {
    MadeTrace made;
    MadeTrace::Collective what{rank == 0 ? "send" : "recv", 1024, 1024};
    what.more = rank == 0 ? R"("Dst Rank":1)" : R"("Src Rank":0)";
    made.step(3, 0, 10'000).kernel("gemm", 10, 50).collective("ncclDevKernel_SendRecv(x)", begin, length, what);
    return made.text(rank, 2);
  };
  Traces waited;
  waited.add(trace(0, 3000, 100)).add(trace(1, 1000, 2100));
  CHECK(only(waited.read()).source == "import:pytorch-profiler alone ranks-clock");
  CHECK(describe(only(waited.read()).costs.front().key) == "point_to_point send_recv bytes=4096 intra_node");
  CHECK(only(waited.read()).costs.front().statistics.max() == 100'000);
  Traces late;
  late.add(trace(0, 1000, 2100)).add(trace(1, 3000, 100));
  CHECK(only(late.read()).source.find("waiting") != std::string::npos);
}

TEST_CASE("collectives of the host are costs where the job has one group") {
  const auto trace = [](int rank, double length) {
    MadeTrace made;
    made.event(
        R"({"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,"ts":4203669604100,)"
        R"("dur":)" +
        std::to_string(length) +
        R"(,"args":{"Concrete Inputs":[""],"Input type":["float"],"Input Strides":[[1]],"Input Dims":[[16,64]]}})");
    made.host_operator("aten::mm", 5000, 20);
    return made.text(rank, 2);
  };
  Traces traces;
  traces.add(trace(0, 900)).add(trace(1, 300));
  const PublishedCosts profile = only(traces.read());
  CHECK(describe(profile.costs.front().key) == "collective all_reduce float32 bytes=4096 group_size=2 intra_node");
  CHECK(profile.costs.front().statistics.max() == 300'000);
  CHECK(profile.fingerprint.device.at("kind") == "cpu");
}

TEST_CASE("traces without a size of a collective say what is missing and who tells it") {
  Traces older;
  older.add(eight_steps().text(0, 2));
  CHECK(older.refusal().find("8 kernels of NCCL, and no size of one (\"In msg nelems\")") != std::string::npos);
  Traces alone;
  alone.add(MadeTrace().step(3, 0, 100).kernel("gemm", 10, 50).text());
  CHECK(alone.refusal().find("no collective of two ranks or more") != std::string::npos);
  // Sizes that cannot be of one collective are no sizes.
  Traces wrong;
  wrong.add(rank_that_comes(0, {"_allgather_base", 1000, 2001}, kAllGather).text(0, 2));
  CHECK(wrong.refusal().find("no size of one") != std::string::npos);
  Traces execution;
  execution.add(R"({"schema":"1.1.1-chakra.0.0.4","pid":1,"nodes":[{"name":"aten::mm","id":2}]})");
  CHECK(execution.refusal().find("torch.profiler.profile()") != std::string::npos);
}

TEST_CASE("traces of two machines are not imported as one") {
  Traces traces;
  std::string other = rank_that_comes(100).text(1, 2);
  other.replace(other.find("H100"), 4, "A100");
  traces.add(rank_that_comes(0).text(0, 2)).add(other);
  CHECK(traces.refusal().find("its device is NVIDIA A100 80GB HBM3, and that of") != std::string::npos);
}

TEST_CASE("the same traces have the same origin, in any order") {
  Traces one;
  one.add(rank_that_comes(0).text(0, 2)).add(rank_that_comes(1200).text(1, 2));
  Traces other;
  other.add(rank_that_comes(1200).text(1, 2)).add(rank_that_comes(0).text(0, 2));
  CHECK(only(one.read()).origin == only(other.read()).origin);
}
