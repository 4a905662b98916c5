#include "json_schema.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::test;
using nlohmann::json;

namespace {

JsonSchema schema(const std::string& name) {
  return {TRIMTAB_JSON_SCHEMAS, name};
}

void check_written(const std::string& name, const std::string& text) {
  INFO(name << ": " << text);
  CHECK(schema(name).violations(json::parse(text), true) == std::vector<std::string>());
}

}  // namespace

TEST_CASE("every schema file is JSON of draft 2020-12 and describes an object") {
  for (const char* name : {"benchmark_requests", "cluster", "job", "model", "plan", "prediction", "report", "search"}) {
    INFO(name);
    const JsonSchema file = schema(name);
    CHECK(file.root().at("$schema") == "https://json-schema.org/draft/2020-12/schema");
    CHECK(file.root().at("$id") == std::string(name) + ".schema.json");
    CHECK(file.root().at("type") == "object");
    CHECK_FALSE(file.violations(json::array(), false).empty());
    CHECK_FALSE(file.violations(json::object(), false).empty());
  }
}

TEST_CASE("the full samples are valid under their schemas, with no member that a schema does not mention") {
  check_written("plan", sample(DocumentKind::kPlan));
  check_written("model", sample(DocumentKind::kModel));
  check_written("cluster", sample(DocumentKind::kCluster));
  check_written("prediction", sample_prediction_json());
  check_written("job", sample(DocumentKind::kJob));
}

TEST_CASE("what to_json writes is valid under the schema, which mentions every member") {
  check_written("plan", to_json(*parse_plan(sample(DocumentKind::kPlan), "")));
  check_written("model", to_json(*parse_model(sample(DocumentKind::kModel), "")));
  check_written("cluster", to_json(*parse_cluster(sample(DocumentKind::kCluster), "")));
  check_written("prediction", to_json(sample_prediction()));
  check_written("job", to_json(*parse_job(sample(DocumentKind::kJob), "")));
}

TEST_CASE("search output is valid under its schema, plans and predictions included") {
  SearchResult result{"unified", "native", "job", 1, 0.41, 812345, "converged", 50113.2, false, {}};
  result.plans.push_back({*parse_plan(sample(DocumentKind::kPlan), ""), sample_prediction()});
  check_written("search", to_json(result));
  result.plans[0].plan.microbatch = 0;
  CHECK(schema("search").violations(json::parse(to_json(result)), true) ==
        std::vector<std::string>{".plans[0].plan.microbatch: is too small"});
}

TEST_CASE("the benchmark requests of the documentation are valid under their schema") {
  check_written("benchmark_requests", R"(
{ "schema": "trimtab.benchmark_requests/1", "relative_error": 0.03, "max_repetitions": 60, "min_repetitions": 5,
  "items": [ { "kind": "operator", "cost_key": "attention-h256-t128", "dtype": "float32", "samples": 2, "tp": 1, "sharding": "default" },
             { "kind": "optimizer", "cost_key": "attention-h256-t128", "dtype": "float32" },
             { "kind": "collective", "primitive": "all_reduce", "bytes": 1048576, "group_size": 2 },
             { "kind": "point_to_point", "bytes": 65536 },
             { "kind": "overlap", "primitive": "all_reduce", "bytes": 1048576, "group_size": 2, "cost_key": "attention-h256-t128", "dtype": "float32", "samples": 2 },
             { "kind": "process" } ] })");
}

TEST_CASE("a benchmark request without what its kind needs is invalid") {
  const json requests = json::parse(
      R"({"schema":"trimtab.benchmark_requests/1","items":[{"kind":"process"},{"kind":"collective","bytes":1}]})");
  CHECK(schema("benchmark_requests").violations(requests, false).size() == 2);
}
