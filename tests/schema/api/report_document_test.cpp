#include "schema/api/report.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "../../golden_text.hpp"
#include "../documents/json_schema.hpp"
#include "document_schema.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"

using namespace trimtab;
using namespace trimtab::api;
using nlohmann::json;

namespace {

// A report as the coordinator writes it (tests/coordinator/api).
std::string report_text() {
  std::ifstream file(std::string(TRIMTAB_SOURCE) + "/tests/coordinator/golden/api/report.txt");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string refusal_of(const json& report) {
  const auto read = parse<Report>(report.dump(), "report.json");
  return read.ok() ? "" : read.error().message;
}

}  // namespace

TEST_CASE("the report's schema is made from its one description") {
  const std::string made = test::DocumentSchema::text<Report>("report", "tune report",
                                                              "What one tuning run did and found. Intervals are 95 %.");
  CHECK(test::golden_text(std::string(TRIMTAB_JSON_SCHEMAS) + "/report.schema.json", made) == made);
}

TEST_CASE("a report that the coordinator writes is valid under its schema, which mentions every member") {
  const json report = json::parse(report_text());
  for (const char* member : {"drifts", "overhead", "resizes", "timeline", "crashes", "earlier_trials"}) {
    INFO(member);
    CHECK_FALSE(report.at(member).empty());
  }
  const test::JsonSchema schema(TRIMTAB_JSON_SCHEMAS, "report");
  CHECK(schema.violations(report, true) == std::vector<std::string>());
}

TEST_CASE("a report that is read and written again is the same") {
  const std::string text = report_text();
  const auto read = parse<Report>(text, "report.json");
  REQUIRE(read.ok());
  CHECK(to_json(*read) + "\n" == text);
}

TEST_CASE("of a report's members an unknown one is tolerated, and a missing one keeps its default") {
  const auto read =
      parse<Report>(R"({"schema":"trimtab.report/1","later":[1],"trials":[{"state":"frozen"}],"seconds":null})", "");
  REQUIRE(read.ok());
  CHECK(read->compared);
  CHECK_FALSE(read->seconds);
  // A word of a later release is kept, and equals none.
  CHECK(read->trials.at(0).state.text() == "frozen");
  CHECK(read->trials.at(0).state != TrialState::kFailed);
}

TEST_CASE("a member of another type is named by its path") {
  json report = json::parse(report_text());
  report["trials"][1]["speedup"]["low"] = "fast";
  CHECK(refusal_of(report) == "report.json: $.trials[1].speedup.low: expected a number, but found string");
  report["trials"][1]["speedup"] = 7;
  CHECK(refusal_of(report) == "report.json: $.trials[1].speedup: expected an object, but found number");
  report["trials"] = json::object();
  CHECK(refusal_of(report) == "report.json: $.trials: expected an array, but found object");
  report["loss"]["tuned"] = {{1, 2, 3}};
  report["trials"] = json::array();
  CHECK(refusal_of(report) == "report.json: $.loss.tuned[0]: expected an array of two, but found array");
  report["loss"] = nullptr;
  report["launches"] = -1;
  CHECK(refusal_of(report) == "report.json: $.launches: expected a number from 0 to 9e15, but found number");
  report["launches"] = 1e300;
  CHECK(refusal_of(report) == "report.json: $.launches: expected a number from 0 to 9e15, but found number");
  report["schema"] = "trimtab.report/2";
  CHECK(refusal_of(report) == "report.json: $.schema: expected 'trimtab.report/1', but found 'trimtab.report/2'");
  CHECK(refusal_of(json::array()) == "report.json: expected a report (a JSON object)");
}

TEST_CASE("what a reader cannot do without is missing by its path") {
  const auto status = parse<ClusterStatus>(R"({"nodes":[]})");
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message == "$.jobs: missing");
  CHECK(parse<ClusterStatus>("[]").error().message == "$: expected an object, but found array");
  CHECK(parse<ClusterStatus>("null").error().message == "$: expected an object, but found null");
  CHECK(parse<ClusterStatus>("{").error().message == "no JSON");
}

TEST_CASE("numbers that are none become null, and bytes that are no text are replaced") {
  api::Job job;
  job.name = "bad \xff";
  job.loss = std::nan("");
  job.step_ms = std::numeric_limits<double>::infinity();
  const json written = json::parse(to_json(job));
  CHECK(written.at("name") == "bad \xef\xbf\xbd");
  CHECK(written.at("loss").is_null());
  CHECK(written.at("step_ms").is_null());
  CHECK_FALSE(written.contains("was_running"));
  const auto back = parse<api::Job>(written.dump());
  REQUIRE(back.ok());
  CHECK_FALSE(back->loss);
  CHECK(back->step_ms == 0);
}

TEST_CASE("a document inside another is carried as it is; none is null, and what is no JSON is a text") {
  api::Job job;
  job.recommendation.json = R"({"stages":[1, 2.50]})";
  job.incumbent.plan = CarriedPlan{{"no JSON"}};
  const json written = json::parse(to_json(job));
  CHECK(written.at("recommendation").dump() == R"({"stages":[1,2.5]})");
  CHECK(written.at("incumbent").at("plan") == "no JSON");
  job.recommendation.json.clear();
  CHECK(json::parse(to_json(job)).at("recommendation").is_null());
}
