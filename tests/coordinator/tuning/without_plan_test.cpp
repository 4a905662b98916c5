// Jobs in mode observe that nothing is known of: they run as they were written.

#include <catch2/catch.hpp>

#include "../fake_world.hpp"
#include "jobs/job_table.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Job unplanned() {
  Job job = fake_job(JobMode::kObserve);
  job.describe.clear();
  job.benchmark.clear();
  job.trials.stop_after = false;
  return job;
}

}  // namespace

TEST_CASE("a job in mode observe runs without a model, a benchmark or a plan", "[without-plan]") {
  FakeWorld one(unplanned(), {{"", 100, 100}}, 3, 0.03);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.launches() == 1);
  CHECK(one.proposals.empty());
  CHECK(one.looks.empty());
  CHECK(one.state().search.searches == 0);
  CHECK(one.state().incumbent.hash == kAsLaunched);
  CHECK(one.state().initial_measured.mean_ms == Approx(100).epsilon(0.1));
}

TEST_CASE("… and is launched again when it crashes", "[without-plan]") {
  FakeWorld one(unplanned(), {{"", 100, 100}}, 3, 0.03);
  one.faults.crash_at_step = 100;
  one.faults.snapshot_every = 10;
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.launches() == 2);
}

TEST_CASE("what such a job needs a plan for is refused, with what to do", "[without-plan]") {
  CHECK(check_job(unplanned(), true).ok());
  CHECK_FALSE(check_job(unplanned(), false).ok());  // to profile, something must be measured
  const auto refusal = [](const std::function<void(Job&)>& change) {
    Job job = unplanned();
    change(job);
    const Status checked = check_job(job, true);
    REQUIRE_FALSE(checked.ok());
    return checked.error().message;
  };
  for (const std::string word : {"{plan}", "{target_arguments}", "{target_config}"}) {
    const std::string why = refusal([&](Job& job) { job.train.push_back("--x=" + word); });
    CHECK_THAT(why, Catch::Contains("a command uses " + word) && Catch::Contains("commands.benchmark"));
  }
  CHECK_THAT(refusal([](Job& job) { job.initial_plan_json = "{}"; }), Catch::Contains("has an initial plan"));
  CHECK_THAT(refusal([](Job& job) { job.elastic = true; }), Catch::Contains("is elastic"));
  CHECK_THAT(refusal([](Job& job) { job.mode = JobMode::kAuto; }), Catch::Contains("needs commands.benchmark"));
}
