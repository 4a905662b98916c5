#include "jobs/run_job.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "../plans.hpp"
#include "jobs/status_text.hpp"
#include "schema/plan_words.hpp"
#include "terminal_text.hpp"

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("a progress bar fills from left to right and keeps its width") {
  CHECK(progress_bar(0, 10, 10) == "[----------]  0/10");
  CHECK(progress_bar(5, 10, 10) == "[#####-----]  5/10");
  CHECK(progress_bar(10, 10, 10) == "[##########] 10/10");
  CHECK(progress_bar(99, 10, 10) == "[##########] 10/10");
  CHECK(progress_bar(-1, 10, 10) == "[----------]  0/10");
  CHECK(progress_bar(1, 0, 4) == "[----] 0/0");
}

TEST_CASE("the refreshed line is cut to the terminal, between letters") {
  api::JobSummary job;
  job.phase = Phase::kProfiling;
  job.progress.total = 100;
  job.progress.done = 12;
  job.progress.what = std::string(50, 'x') + "±±±±±±±±±±";
  CHECK(display_width(progress_line(job, 60)) == 60);
  CHECK(progress_line(job, 200).ends_with("±"));
}

TEST_CASE("a job's page and the list of jobs tell what tuning has gained, however it ended") {
  api::Job job;
  job.name = "gpt";
  CHECK_FALSE(describe(job).find("speed-up") != std::string::npos);
  job.gain.emplace();
  job.gain->ratio = 1.63;
  job.gain->low = 1.12;
  job.gain->high = 2.37;
  job.gain->by = api::GainBy::kTrials;
  job.gain->trials = {1};
  CHECK(describe(job).find("speed-up: 1.63× (95 % interval 1.12 to 2.37), as trial 1 measured it in turn\n") !=
        std::string::npos);
  job.gain->until_step = 478;
  CHECK(describe(job).find("measured it in turn, until the machine changed at step 478\n") != std::string::npos);
  api::ClusterStatus cluster;
  cluster.jobs.push_back(job);
  CHECK(describe(cluster).find("1.63 (1.12 to 2.37)") != std::string::npos);
}

TEST_CASE("a job's own words cannot steer the terminal") {
  api::JobSummary job;
  job.phase = Phase::kProfiling;
  job.progress.total = 1;
  job.progress.what = "\x1b[2J\nevil";
  CHECK(progress_line(job, 200).find('\x1b') == std::string::npos);
  CHECK(progress_line(job, 200).find('\n') == std::string::npos);
}

TEST_CASE("a trial's line has its plan, both times and the verdict") {
  api::Trial trial;
  trial.id = 2;
  trial.plan.json = to_json(two_stages());
  trial.state = TrialState::kAdopted;
  trial.predicted_ms = 512;
  trial.measured_ms = 530;
  trial.incumbent_ms = 610;
  trial.speedup = {1.15, 1.11, 1.19};
  CHECK(trial_line(trial) ==
        "trial 2: microbatch 2; [0, 3) dp1 | [3, 6) dp1 rc2: predicted 512 ms, measured 530 ms beside 610 ms: adopted "
        "(1.15x, 1.11 to 1.19)");
  trial.plan.json = to_json(two_stages(), "batch_size=2 per rank");
  CHECK(trial_line(trial).starts_with("trial 2: batch_size=2 per rank (microbatch 2; [0, 3) dp1 | [3, 6) dp1 rc2): "));
  api::Job job;
  job.incumbent.plan = trial.plan;
  job.recommendation = trial.plan;
  CHECK(describe(job).find("\nincumbent: batch_size=2 per rank (micro") != std::string::npos);
  CHECK(describe(job).find("\nrecommended: batch_size=2 per rank (micro") != std::string::npos);
  api::Trial failed;
  failed.id = 3;
  failed.state = TrialState::kFailed;
  failed.reason = "refused";
  failed.message = "needs 812 MiB";
  CHECK(trial_line(failed).ends_with("failed, refused: needs 812 MiB"));
}

TEST_CASE("without a terminal only whole lines are written") {
  std::ostringstream stream;
  {
    LiveOutput output(stream, false);
    output.refresh("half way");
    output.line("done");
    output.refresh("more");
  }
  CHECK(stream.str() == "done\n");
}

TEST_CASE("on a terminal the refreshed line gives way to lines and goes at the end") {
  std::ostringstream stream;
  {
    LiveOutput output(stream, true);
    output.refresh("half way");
    output.refresh("half way");
    output.line("done");
  }
  CHECK(stream.str() == "\r\x1b[Khalf way\r\x1b[Kdone\n");
}
