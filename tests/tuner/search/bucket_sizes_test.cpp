#include "outcome/bucket_sizes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "gpt_world.hpp"
#include "schema/target.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kUsual = 25 << 20;
constexpr Bytes kMib = Bytes{1} << 20;

SearchResult search_ddp(const CostModel& model, std::vector<std::string> excluded = {}) {
  SearchOptions options;
  options.target = "ddp";
  options.strategy = "target";
  options.space = "all";
  options.excluded = std::move(excluded);
  Knobs knobs;
  knobs.sharded = true;
  return search(model, knobs, options).value().result;
}

std::string size_of(const Plan& plan) {
  const auto found = plan.target_knobs.find("bucket_bytes");
  return found == plan.target_knobs.end() ? "" : found->second;
}

TEST_CASE("sizes of buckets are a factor of two apart, and none is the target's own by another name") {
  CHECK(bucket_sizes(100 * kMib, kUsual) ==
        std::vector<std::int64_t>{1638400, 3276800, 6553600, 13107200, 52428800, 104857600});
  CHECK(bucket_sizes(8 * kMib, kUsual) == std::vector<std::int64_t>{1 << 20, 2 << 20, 4 << 20});
  CHECK(bucket_sizes(kMib / 2, kUsual).empty());
}

TEST_CASE("a DDP search offers plans of several sizes of buckets, each said in the plan and priced with it") {
  test::Workload work = test::gpt(6, 4, 16);
  work.cluster.nodes.front().memory_bytes *= 4;  // buckets need room, too
  const CostTable table = CostTable::build(work.model, work.cluster, work.costs, {true}).value();
  const NativeCostModel model(table);
  const SearchResult result = search_ddp(model);
  REQUIRE_FALSE(result.plans.empty());
  std::vector<std::string> sizes;
  for (const RankedPlan& one : result.plans) {
    REQUIRE_FALSE(size_of(one.plan).empty());
    sizes.push_back(size_of(one.plan));
    CHECK(export_plan(one.plan, work.model, "ddp")->file_text.find("bucket_cap_mb") != std::string::npos);
    CHECK(one.prediction.iteration_ms == model.evaluate(one.plan).iteration_ms);
  }
  CHECK(std::ranges::count(sizes, std::to_string(kUsual)) >= 1);
  CHECK(std::ranges::count(sizes, std::to_string(kUsual)) < std::ssize(sizes));
  CHECK_FALSE(result.proven);

  const std::string tried = semantic_hash(result.plans.front().plan);
  for (const RankedPlan& one : search_ddp(model, {tried}).plans) CHECK(semantic_hash(one.plan) != tried);
}

TEST_CASE("where a reduction's latency is high larger buckets are priced best, where it is low smaller ones") {
  const auto best_size = [](std::int64_t latency_ns) {
    test::Workload work = test::gpt(8, 2, 16);
    // What every collective takes longer, whatever its size.
    for (Cost& cost : work.costs) {
      if (cost.key.kind != CostKind::kCollective) continue;
      const auto ns = static_cast<std::int64_t>(cost.statistics.mean()) + latency_ns;
      cost.statistics = Statistics();
      for (int i = 0; i < 2; ++i) cost.statistics.add(ns);
    }
    const CostTable table = CostTable::build(work.model, work.cluster, work.costs, {true}).value();
    return std::stoll(size_of(search_ddp(NativeCostModel(table)).plans.front().plan));
  };
  CHECK(best_size(5000000) > best_size(0));
}

TEST_CASE("a plan that does not say its size of buckets is run with PyTorch's own") {
  Plan plan;
  CHECK(size_of(as_run(plan, "ddp")) == std::to_string(kUsual));
  CHECK(size_of(as_run(plan, "fsdp")).empty());
  CHECK(size_of(as_run(plan, "")).empty());
  plan.target_knobs["bucket_bytes"] = "7";
  CHECK(size_of(as_run(plan, "ddp")) == "7");
}

}  // namespace
}  // namespace trimtab::tuner
