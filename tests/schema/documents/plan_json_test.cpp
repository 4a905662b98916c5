#include <string>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// A plan with one stage of one segment; `segment` and `extra` are further members.
std::string plan_with(const std::string& segment, const std::string& extra = "") {
  return R"({"schema":"trimtab.plan/1","model":"m","global_batch":8,"microbatch":2,)" + extra +
         R"("stages":[{"devices":[0],"segments":[{"operators":[2,9])" + segment + "}]}]}";
}

std::string error_of(const std::string& text) {
  const Result<Plan> plan = parse_plan(text, "plan.json");
  return plan.ok() ? "" : plan.error().message;
}

}  // namespace

TEST_CASE("every field of a plan is read") {
  const Plan plan = parse_plan(sample(DocumentKind::kPlan), "").value();
  CHECK(plan.model == "toy-24");
  CHECK(plan.global_batch == 1024);
  CHECK(plan.microbatches() == 256);
  CHECK(plan.schedule == Schedule{ScheduleKind::k1F1B, Transfers::kEager, 2, 2, true, true});
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[0].devices == std::vector<std::int32_t>{0, 1});
  CHECK(plan.stages[1].operators() == Range{27, 55});
  const Segment& first = plan.stages[0].segments[0];
  CHECK(first.tp == 2);
  CHECK_FALSE(first.tp_consecutive);
  CHECK(first.recompute == std::vector<Range>{{3, 16}});
  CHECK(first.alternate_dimension == std::vector<Range>{{5, 6}});
  CHECK(first.switches == Switches{{{4, 12}}, {{0, 2}}, {{2, 3}}, {{1, 2}}, {{7, 9}}, {{8, 9}}, true});
  const Segment& second = plan.stages[1].segments[0];
  CHECK(second.cp == 2);
  CHECK(second.sharded == ShardedLevel::kOptimizer);
  CHECK(second.sharded_degree == 2);
  CHECK(plan.target_knobs.at("precision") == "\"bf16\"");
  CHECK(plan.target_knobs.at("ddp") == "{\"bucket_bytes\":25000000}");
}

TEST_CASE("a plan comes back from its JSON as it was") {
  for (const SampleDocument& document : sample_documents()) {
    if (document.kind != DocumentKind::kPlan) continue;
    const Plan plan = parse_plan(document.text, "").value();
    CHECK(parse_plan(to_json(plan), "").value() == plan);
  }
}

TEST_CASE("missing fields of a plan mean the defaults") {
  const Plan plan = parse_plan(plan_with(""), "").value();
  Segment expected;
  expected.operators = {2, 9};
  CHECK(plan.schedule == Schedule());
  CHECK(plan.stages[0].segments[0] == expected);
}

TEST_CASE("fields that this release does not know are tolerated in plans") {
  CHECK(error_of(plan_with(R"(,"expert_groups":4)", R"("future":{"x":[1]},)")).empty());
}

TEST_CASE("ranges of operators are sorted and merged on reading") {
  const Plan plan = parse_plan(plan_with(R"(,"recompute":[[5,7],[2,3],[3,4],[8,8],[6,9]])"), "").value();
  CHECK(plan.stages[0].segments[0].recompute == std::vector<Range>{{2, 4}, {5, 9}});
}

TEST_CASE("an unsuitable field of a plan is named by its path") {
  const std::string segment = "plan.json: stages[0].segments[0].";
  CHECK(error_of(plan_with(R"(,"dp":"two")")) == segment + "dp: expected a positive integer, found \"two\"");
  CHECK(error_of(plan_with(R"(,"tp":0)")) == segment + "tp: expected a positive integer, found 0");
  CHECK(error_of(plan_with(R"(,"sharded":"all")")) ==
        segment + R"(sharded: expected "none", "optimizer", "gradients" or "parameters", found "all")");
  CHECK(error_of(plan_with(R"(,"recompute":[[2,3,4]])")) ==
        segment + "recompute[0]: expected a range [begin, end) of operators, found an array of 3");
  CHECK(error_of(plan_with(R"(,"recompute":[[4,3]])")) ==
        segment + "recompute[0]: a range must not end before it begins");
  CHECK(error_of(plan_with(R"(,"recompute":[[8,10]])")) ==
        segment + "recompute[0]: [8, 10) is not inside the segment's operators [2, 9)");
  CHECK(error_of(plan_with(R"(,"switches":{"offload_hidden":[[0,3]]})")) ==
        segment + "switches.offload_hidden[0]: [0, 3) is not inside the segment's operators [2, 9)");
  CHECK(error_of(plan_with(R"(,"switches":[])")) == segment + "switches: expected an object, found an empty array");
  CHECK(error_of(plan_with("", R"("schedule":{"transfers":"lazy"},)")) ==
        "plan.json: schedule.transfers: expected \"eager\" or \"blocking\", found \"lazy\"");
}

TEST_CASE("stages need devices, and segments that follow on each other") {
  const std::string head = R"({"schema":"trimtab.plan/1","model":"m","global_batch":8,"microbatch":2,"stages":)";
  CHECK_THAT(error_of(head + "[]}"),
             Catch::Contains("stages: expected an array of at least one, found an empty array"));
  CHECK_THAT(error_of(head + R"([{"devices":[],"segments":[{"operators":[0,1]}]}]})"),
             Catch::Contains("stages[0].devices: expected an array of at least one"));
  CHECK_THAT(error_of(head + R"([{"devices":[1,1],"segments":[{"operators":[0,1]}]}]})"),
             Catch::Contains("stages[0].devices[1]: device 1 is named twice"));
  CHECK_THAT(error_of(head + R"([{"devices":[1],"segments":[]}]})"), Catch::Contains("stages[0].segments: expected"));
  CHECK_THAT(error_of(head + R"([{"devices":[0],"segments":[{"operators":[0,1]},{"operators":[2,3]}]}]})"),
             Catch::Contains("stages[0].segments[1].operators: the segment before ends at operator 1"));
  CHECK_THAT(error_of(head + R"([{"devices":[0],"segments":[{"operators":[1,1]}]}]})"),
             Catch::Contains("a segment needs at least one operator"));
  CHECK_THAT(
      error_of(head + R"([{"devices":[0],"segments":[{}]}]})"),
      Catch::Contains("stages[0].segments[0].operators: expected a range [begin, end) of operators, found nothing"));
}

TEST_CASE("a plan of more samples than a model may have is refused") {
  const auto plan = [](const std::string& batch, const std::string& microbatch, const std::string& sub_batches) {
    return error_of(R"({"schema":"trimtab.plan/1","model":"m","global_batch":)" + batch + R"(,"microbatch":)" +
                    microbatch + R"(,"schedule":{"sub_batches":)" + sub_batches +
                    R"(},"stages":[{"devices":[0],"segments":[{"operators":[0,1]}]}]})");
  };
  const std::string most = "1048576";
  const std::string more = "1048577";
  CHECK(plan(most, most, most).empty());
  CHECK_THAT(plan(more, "1", "1"), Catch::StartsWith("plan.json: global_batch: expected a number of samples"));
  CHECK_THAT(plan(most, more, "1"), Catch::StartsWith("plan.json: microbatch: expected a number of samples"));
  CHECK_THAT(plan(most, "1", more), Catch::StartsWith("plan.json: schedule.sub_batches: expected a number of samples"));
}
