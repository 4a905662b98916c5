#include "node/metrics_page.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "../temporary_directory.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

std::string hidden(const OpaqueJobs& jobs, const std::string& labels) {
  std::vector<net::Metric> metrics{{"trimtab_rank_threads", false, "", 1, labels}};
  jobs.hide(metrics);
  return metrics[0].labels;
}

}  // namespace

TEST_CASE("a job's name is not on the page, and its label tells it from others and stays the same") {
  const TemporaryDirectory directory;
  const auto jobs = OpaqueJobs::open(directory / "metrics.key");
  REQUIRE(jobs.ok());
  const std::string label = hidden(*jobs, R"({job="gpt",rank="0"})");
  CHECK_THAT(label, Catch::Matches(R"(\{job="job-[0-9a-f]{16}",rank="0"\})"));
  CHECK(hidden(*jobs, R"({job="gpt",rank="0"})") == label);
  CHECK(hidden(*jobs, R"({job="gpu",rank="0"})") != label);
  // The next agent on this state has the same labels; another state's has others.
  CHECK(hidden(OpaqueJobs::open(directory / "metrics.key").value(), R"({job="gpt",rank="0"})") == label);
  CHECK(hidden(OpaqueJobs::open(directory / "other.key").value(), R"({job="gpt",rank="0"})") != label);
}

TEST_CASE("only the label job is hidden, wherever it stands and whatever the values hold") {
  const OpaqueJobs jobs("key");
  CHECK(hidden(jobs, "") == "");
  CHECK(hidden(jobs, R"({tenant="a"})") == R"({tenant="a"})");
  CHECK(hidden(jobs, R"({name="x,job=\"gpt\"",kind="job"})") == R"({name="x,job=\"gpt\"",kind="job"})");
  const std::string last = hidden(jobs, R"({name="a\"b,",job="g\"pt"})");
  CHECK_THAT(last, Catch::StartsWith(R"({name="a\"b,",job="job-)"));
  CHECK_THAT(last, !Catch::Contains("pt"));
}

TEST_CASE("nobody else may read the key") {
  const TemporaryDirectory directory;
  REQUIRE(OpaqueJobs::open(directory / "metrics.key").ok());
  struct stat found {};
  REQUIRE(::stat((directory / "metrics.key").c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0600U);
}
