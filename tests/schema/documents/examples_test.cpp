#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "json_schema.hpp"
#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::test;
using nlohmann::json;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string protocols() {
  return read(std::filesystem::path(TRIMTAB_SOURCE) / "docs/protocols.md");
}

// The first fenced block of that language after the heading.
std::string block_after(const std::string& text, const std::string& heading, const std::string& language) {
  const std::size_t section = text.find("\n" + heading + "\n");
  REQUIRE(section != std::string::npos);
  const std::string fence = "```" + language + "\n";
  const std::size_t begin = text.find(fence, section) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

}  // namespace

TEST_CASE("the job files and plans of the examples are read") {
  int jobs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TRIMTAB_SOURCE) + "/examples")) {
    if (entry.path().extension() != ".toml" || read(entry.path()).find("trimtab.job/1") == std::string::npos) continue;
    const Result<Job> job = load_job(entry.path().string());
    INFO(entry.path() << ": " << (job.ok() ? "" : job.error().message));
    REQUIRE(job.ok());
    ++jobs;
    if (job->initial_plan_json.empty()) continue;
    CHECK(JsonSchema(TRIMTAB_JSON_SCHEMAS, "plan").violations(json::parse(job->initial_plan_json), true).empty());
  }
  CHECK(jobs > 3);
}

TEST_CASE("the job file of the manual is read") {
  const auto parsed = parse_job_toml(block_after(protocols(), "## job.toml", "toml"), "protocols.md", "/d");
  INFO((parsed.ok() ? "" : parsed.error().message));
  REQUIRE(parsed.ok());
  CHECK(parsed->job.name == "gpt-cpu");
  CHECK(parsed->initial_plan_path == "/d/initial.json");
}

TEST_CASE("the benchmark requests of the manual are valid under their schema") {
  const json requests = json::parse(block_after(protocols(), "## The benchmark command", "json"));
  CHECK(JsonSchema(TRIMTAB_JSON_SCHEMAS, "benchmark_requests").violations(requests, true).empty());
}

TEST_CASE("every cost kind of the manual is known, with the unit that the manual gives") {
  const std::string text = protocols();
  int kinds = 0;
  for (int i = 0; i <= static_cast<int>(CostKind::kKernel); ++i) {
    const auto kind = static_cast<CostKind>(i);
    if (kind == CostKind::kRange) continue;
    const std::string row = "| `" + std::string(to_string(kind)) + "` | " + std::string(unit_of(kind)) + " |";
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
    ++kinds;
  }
  CHECK(kinds == 18);
}
