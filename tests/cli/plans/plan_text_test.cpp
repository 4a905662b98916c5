#include "plans/plan_text.hpp"

#include <catch2/catch.hpp>

#include "../plans.hpp"

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("a plan fits on one line") {
  CHECK(one_line(two_stages()) == "microbatch 2; [0, 3) dp1 | [3, 6) dp1 rc2");
  CHECK(one_line(data_parallel()) == "microbatch 4; [0, 6) dp2 optimizer/2");
  Plan plan = data_parallel();
  plan.target_knobs["bucket_bytes"] = "52428800";
  CHECK(one_line(plan) == "microbatch 4; [0, 6) dp2 optimizer/2; buckets of 50.0 MiB");
  plan.target_knobs["bucket_bytes"] = "\"many\"";
  CHECK(one_line(plan) == "microbatch 4; [0, 6) dp2 optimizer/2");
}

TEST_CASE("a plan is named in its framework's words, with our notation beside them") {
  CHECK(named_plan(data_parallel(), "batch_size=2 per rank, checkpointing off") ==
        "batch_size=2 per rank, checkpointing off (microbatch 4; [0, 6) dp2 optimizer/2)");
  CHECK(named_plan(data_parallel(), "") == one_line(data_parallel()));
}

TEST_CASE("a drawing shows which stage runs and which recomputes which operator") {
  const std::string drawing = plan_drawing(two_stages());
  CHECK(drawing ==
        "  stage 0  |##############################..............................|  3 operators  on device 0\n"
        "  stage 1  |..............................rrrrrrrrrrrrrrrrrrrr##########|  3 operators  on device 1\n");
}

TEST_CASE("a drawing of more operators than columns still has one column for each stage's share") {
  Plan plan = two_stages();
  plan.stages[0].segments[0].operators = {0, 500};
  plan.stages[1].segments[0].operators = {500, 1000};
  plan.stages[1].segments[0].recompute = {};
  CHECK(plan_drawing(plan).find("|" + std::string(30, '#') + std::string(30, '.') + "|") != std::string::npos);
}

TEST_CASE("the table names operators where the model is known and says when it does not fit") {
  Model model;
  model.operators.resize(6);
  for (std::size_t i = 0; i < 6; ++i) model.operators[i].name = "op" + std::to_string(i);
  CHECK(plan_table(two_stages(), &model).find("op3 .. op5") != std::string::npos);
  model.operators.resize(4);
  CHECK(plan_table(two_stages(), &model).find("not in the model") != std::string::npos);
}

TEST_CASE("the difference of a plan with itself is empty") {
  CHECK(differences(two_stages(), two_stages()).empty());
}

TEST_CASE("plans that mean the same do not differ") {
  Plan written = two_stages();
  written.stages[1].segments[0].recompute = {{3, 4}, {4, 5}};
  written.stages[0].segments[0].tp_consecutive = false;  // without tensor parallelism it means nothing
  CHECK(differences(two_stages(), written).empty());
}

TEST_CASE("a difference names the field and both values") {
  Plan after = two_stages();
  after.microbatch = 4;
  after.stages[0].segments[0].recompute = {{0, 3}};
  const auto changes = differences(two_stages(), after);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].field == "microbatch");
  CHECK(changes[0].before == "2");
  CHECK(changes[0].after == "4");
  CHECK(changes[1].field == "stages[0].segments[0].recompute");
  CHECK(changes[1].before == "-");
  CHECK(changes[1].after == "[0, 3)");
}

TEST_CASE("stages that only one plan has are listed") {
  const auto changes = differences(data_parallel(), two_stages());
  const auto has = [&](const std::string& field) {
    return std::any_of(changes.begin(), changes.end(), [&](const PlanChange& change) { return change.field == field; });
  };
  CHECK(has("stages"));
  CHECK(has("stages[1].devices"));
  CHECK(has("stages[0].segments[0].dp"));
}
