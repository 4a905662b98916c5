#include <functional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

Plan base_plan() {
  Plan plan;
  plan.model = "m";
  plan.global_batch = 16;
  plan.microbatch = 4;
  Segment segment;
  segment.operators = {0, 10};
  segment.dp = 2;
  segment.tp = 2;
  segment.recompute = {{2, 6}};
  plan.stages = {{{0, 1, 2, 3}, {segment}}, {{4, 5, 6, 7}, {segment}}};
  plan.stages[1].segments[0].operators = {10, 20};
  plan.stages[1].segments[0].recompute = {};
  return plan;
}

Segment& first(Plan& plan) {
  return plan.stages[0].segments[0];
}

using Change = std::function<void(Plan&)>;

std::string hash_after(const Change& change) {
  Plan plan = base_plan();
  change(plan);
  return semantic_hash(plan);
}

}  // namespace

TEST_CASE("the hash of a plan is the one of the first release") {
  // Databases name plans by it.
  CHECK(semantic_hash(parse_plan(sample(DocumentKind::kPlan), "").value()) == "6facfd7baed23cdd");
}

TEST_CASE("plans that mean the same have the same hash") {
  const std::string expected = semantic_hash(base_plan());
  CHECK(hash_after([](Plan& plan) { first(plan).recompute = {{4, 6}, {2, 4}, {8, 8}}; }) == expected);
  CHECK(hash_after([](Plan& plan) { first(plan).sharded_degree = 2; }) == expected);
  CHECK(hash_after([](Plan& plan) {
          first(plan).sharded = ShardedLevel::kGradients;
          first(plan).sharded_degree = 1;
        }) == expected);
  CHECK(hash_after([](Plan& plan) {
          Segment second = first(plan);
          first(plan).operators.end = 4;
          first(plan).recompute = {{2, 4}};
          second.operators.begin = 4;
          second.recompute = {{4, 6}};
          plan.stages[0].segments.push_back(second);
        }) == expected);
}

TEST_CASE("a default that is written has the hash of one that is not") {
  const auto hash_of = [](const std::string& member) {
    const std::string text = R"({"schema":"trimtab.plan/1","model":"m","global_batch":8,"microbatch":2,
      "stages":[{"devices":[0,1],"segments":[{"operators":[0,3],"dp":2)" +
                             member + "}]}]}";
    return semantic_hash(parse_plan(text, "").value());
  };
  const std::string expected = hash_of("");
  CHECK(hash_of(R"(,"tp":1,"cp":1,"sharded":"none","tp_consecutive":true,"recompute":[],"switches":{})") == expected);
  CHECK(hash_of(R"(,"sharded_degree":2)") == expected);
  // Nothing is split, so neither its dimension nor the order of ranks matters.
  CHECK(hash_of(R"(,"tp_consecutive":false,"alternate_dimension":[[0,1]])") == expected);
  CHECK(hash_of(R"(,"sharded":"optimizer")") != expected);
  CHECK(hash_of(R"(,"sharded":"optimizer")") == hash_of(R"(,"sharded":"optimizer","sharded_degree":2)"));
}

TEST_CASE("the order of knobs in a target's own settings does not matter") {
  Plan one = base_plan();
  one.target_knobs["ddp"] = R"({"a":1,"b":[2,3]})";
  Plan other = base_plan();
  other.target_knobs["ddp"] = R"({ "b": [2, 3], "a": 1 })";
  CHECK(semantic_hash(one) == semantic_hash(other));
  other.target_knobs["ddp"] = R"({"a":1,"b":[3,2]})";
  CHECK(semantic_hash(one) != semantic_hash(other));
}

TEST_CASE("a change of any setting that matters changes the hash") {
  const std::vector<Change> changes{
      [](Plan&) {},
      [](Plan& plan) { plan.model = "n"; },
      [](Plan& plan) { plan.global_batch = 32; },
      [](Plan& plan) { plan.microbatch = 2; },
      [](Plan& plan) { plan.schedule.kind = ScheduleKind::kGPipe; },
      [](Plan& plan) { plan.schedule.transfers = Transfers::kEager; },
      [](Plan& plan) { plan.schedule.sliced_microbatches = 1; },
      [](Plan& plan) { plan.schedule.sub_batches = 2; },
      [](Plan& plan) { plan.schedule.cross_pass = true; },
      [](Plan& plan) { plan.schedule.recompute_after_communication = true; },
      [](Plan& plan) { std::swap(plan.stages[0].devices[0], plan.stages[0].devices[1]); },
      [](Plan& plan) {
        first(plan).operators.end = 9;
        plan.stages[1].segments[0].operators.begin = 9;
      },
      [](Plan& plan) { std::swap(first(plan).dp, first(plan).cp); },
      [](Plan& plan) { first(plan).tp_consecutive = false; },
      [](Plan& plan) { first(plan).sharded = ShardedLevel::kOptimizer; },
      [](Plan& plan) { first(plan).sharded = ShardedLevel::kParameters; },
      [](Plan& plan) {
        first(plan).recompute = {{2, 7}};
      },
      [](Plan& plan) {
        first(plan).alternate_dimension = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.offload_hidden = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.partition_parameters = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.lazy_prefetch = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.economical_forward = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.economical_backward = {{2, 6}};
      },
      [](Plan& plan) {
        first(plan).switches.segment_sync = {{2, 6}};
      },
      [](Plan& plan) { first(plan).switches.offload_optimizer = true; },
      [](Plan& plan) { plan.target_knobs["precision"] = "\"bf16\""; },
  };
  std::set<std::string> hashes;
  for (const Change& change : changes) hashes.insert(hash_after(change));
  CHECK(hashes.size() == changes.size());
}

TEST_CASE("plans that differ in recompute alone have one layout, and others have not") {
  const auto layout_after = [](const Change& change) {
    Plan plan = base_plan();
    change(plan);
    return semantic_hash(layout_of(plan));
  };
  const std::string expected = semantic_hash(layout_of(base_plan()));
  CHECK(layout_after([](Plan& plan) { first(plan).recompute = {{2, 7}}; }) == expected);
  CHECK(layout_after([](Plan& plan) { first(plan).recompute.clear(); }) == expected);
  CHECK(layout_after([](Plan& plan) { plan.microbatch *= 2; }) != expected);
  CHECK(layout_after([](Plan& plan) { first(plan).switches.offload_optimizer = true; }) != expected);
}

TEST_CASE("normalized ranges are sorted, merged and never empty") {
  CHECK(normalized({}).empty());
  CHECK(normalized({{3, 3}, {5, 4}}).empty());
  CHECK(normalized({{5, 8}, {0, 2}, {2, 3}, {6, 7}}) == std::vector<Range>{{0, 3}, {5, 8}});
}
