#include "costs/collective_samples.hpp"

#include <catch2/catch.hpp>

#include "schema/nccl.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

CollectiveStamp stamp(std::uint8_t function, std::int64_t bytes, std::uint64_t ns) {
  CollectiveStamp one;
  one.function = function;
  one.bytes = bytes;
  one.begin_ns = 1000;
  one.end_ns = 1000 + ns;
  return one;
}

std::string text_of(const CollectiveTimes& times) {
  std::vector<net::Metric> metrics;
  times.append(metrics);
  return net::render_metrics(metrics);
}

}  // namespace

TEST_CASE("collectives' times are kept by job, function and size") {
  CollectiveTimes times;
  times.add("gpt", {stamp(nccl::kAllReduce, 1 << 20, 2'000'000), stamp(nccl::kAllReduce, (1 << 20) + 1, 3'000'000),
                    stamp(nccl::kAllGather, 100, 20'000)});
  const std::string text = text_of(times);
  const auto says = [&](const std::string& line) { return text.find(line + "\n") != std::string::npos; };
  const std::string reduce =
      "trimtab_agent_collective_seconds_%{job=\"gpt\",collective=\"all_reduce\",size=\"below_16MiB\"";
  const auto part = [&](std::string_view name) { return std::string(reduce).replace(reduce.find('%'), 1, name); };
  CHECK(says(part("bucket") + ",le=\"0.0025\"} 1"));
  CHECK(says(part("bucket") + ",le=\"+Inf\"} 2"));
  CHECK(says(part("sum") + "} 0.005"));
  CHECK(says("trimtab_agent_collective_seconds_count{job=\"gpt\",collective=\"all_gather\",size=\"below_4KiB\"} 1"));
}

TEST_CASE("what cannot be is left out, and the largest sizes have a bucket") {
  CollectiveTimes times;
  CollectiveStamp backwards = stamp(nccl::kReduce, 1, 0);
  backwards.end_ns = 0;
  times.add("a", {backwards, stamp(200, 1, 5), stamp(nccl::kReduce, std::int64_t{1} << 62, 5)});
  const std::string text = text_of(times);
  CHECK(text.find("size=\"from_256MiB\"} 1") != std::string::npos);
  CHECK(text.find("below") == std::string::npos);
}

TEST_CASE("the job that was silent longest makes room for another") {
  CollectiveTimes times;
  for (std::size_t i = 0; i < CollectiveTimes::kMostJobs; ++i) {
    times.add("job" + std::to_string(i), {stamp(nccl::kReduce, 1, 5)});
  }
  times.add("job0", {});
  times.add("new", {stamp(nccl::kReduce, 1, 5)});
  const std::string text = text_of(times);
  CHECK(text.find("job=\"job0\"") != std::string::npos);
  CHECK(text.find("job=\"job1\"") == std::string::npos);
  CHECK(text.find("job=\"new\"") != std::string::npos);
}
