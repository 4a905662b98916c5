#pragma once

// A job as the API tells it: in lists (GET /v1/jobs, /v1/status) and by itself (GET /v1/jobs/NAME and the answers to
// orders). Times are in ms, 0 where nothing was predicted or measured.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/phase.hpp"
#include "schema/api/trial.hpp"

namespace trimtab::api {

struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::string what;

  static constexpr void fields(auto&& visit) {
    visit("done", &Progress::done, Presence::kUsual, "");
    visit("total", &Progress::total, Presence::kUsual, "0: not known.");
    visit("what", &Progress::what, Presence::kUsual, "");
  }
};

// What tuning has cost beyond the incumbent's steps.
struct Overhead {
  static constexpr const char* kName = "overhead";
  double ms = 0;
  double share = 0;
  double allowed_share = 0;

  static constexpr void fields(auto&& visit) {
    visit("ms", &Overhead::ms, Presence::kUsual, "", Sign::kAny);
    visit("share", &Overhead::share, Presence::kUsual, "Of the time that the job takes.", Sign::kAny);
    visit("allowed_share", &Overhead::allowed_share, Presence::kUsual, "0: any.");
  }
};

struct JobSummary {
  std::string name;
  std::int64_t run = 0;
  Word<Phase> phase;
  Word<Doing> doing;
  bool active = true;
  std::string mode;
  bool watched = false;
  std::string tenant = "*";
  bool tune = true;
  bool frozen = false;
  std::string held_by;
  std::string waits_for;
  Progress progress;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::optional<double> loss;
  double step_ms = 0;
  std::int64_t trials = 0;
  std::optional<Gain> gain;
  Overhead overhead;
  std::string failure;
  std::string conclusion;
  bool report_complete = true;
  std::string storage_failure;

  static constexpr void fields(auto&& visit) {
    visit("name", &JobSummary::name, Presence::kAlways, "");
    visit("run", &JobSummary::run, Presence::kUsual, "Its number among all runs of all jobs.");
    visit("phase", &JobSummary::phase, Presence::kAlways, "");
    visit("doing", &JobSummary::doing, Presence::kUsual, "What the phase is busy with.");
    visit("active", &JobSummary::active, Presence::kAlways, "False: it is over.");
    visit("mode", &JobSummary::mode, Presence::kUsual, "");
    visit("watched", &JobSummary::watched, Presence::kIfAny,
          "Its user launched it: it is never started, steered or ended.");
    visit("tenant", &JobSummary::tenant, Presence::kUsual, "Whose it is; \"*\": nobody's in particular.");
    visit("tune", &JobSummary::tune, Presence::kUsual, "False: it is profiled alone.");
    visit("frozen", &JobSummary::frozen, Presence::kUsual, "Somebody wants its plan to stay.");
    visit("held_by", &JobSummary::held_by, Presence::kUsual, "Why its plan stays as it is; empty: it need not.");
    visit("waits_for", &JobSummary::waits_for, Presence::kUsual, "Why it has no nodes though there are some.");
    visit("progress", &JobSummary::progress, Presence::kUsual, "Of the phase.");
    visit("step", &JobSummary::step, Presence::kUsual, "The last one that every rank has made.");
    visit("steps", &JobSummary::steps, Presence::kUsual, "0: not known.");
    visit("loss", &JobSummary::loss, Presence::kUsual, "Of that step; null: no number.", Sign::kAny);
    visit("step_ms", &JobSummary::step_ms, Presence::kUsual, "Of that step.");
    visit("trials", &JobSummary::trials, Presence::kUsual, "That have begun.");
    visit("gain", &JobSummary::gain, Presence::kIfAny, "What tuning has gained; missing: nothing was measured.");
    visit("overhead", &JobSummary::overhead, Presence::kUsual, "What tuning has cost beyond the incumbent's steps.");
    visit("failure", &JobSummary::failure, Presence::kUsual, "Why it failed, or is halted.");
    visit("conclusion", &JobSummary::conclusion, Presence::kUsual, "Why tuning ended.");
    visit("report_complete", &JobSummary::report_complete, Presence::kUsual, "False: its timelines are being made.");
    visit("storage_failure", &JobSummary::storage_failure, Presence::kUsual,
          "Why its state cannot be stored, and orders wait; empty: it can.");
  }
};

// Its incumbent; the initial plan lacks `plan`.
struct JobPlan {
  std::string hash;
  std::optional<CarriedPlan> plan;
  double predicted_ms = 0;
  double measured_ms = 0;

  static constexpr void fields(auto&& visit) {
    visit("hash", &JobPlan::hash, Presence::kUsual, "");
    visit("plan", &JobPlan::plan, Presence::kIfAny, "");
    visit("predicted_ms", &JobPlan::predicted_ms, Presence::kUsual, "");
    visit("measured_ms", &JobPlan::measured_ms, Presence::kUsual, "");
  }
};

struct Job : JobSummary {
  std::string fingerprint;
  std::uint64_t launch = 0;
  std::uint64_t evaluations = 0;
  JobPlan incumbent;
  JobPlan initial;
  double best_prediction_ms = 0;
  CarriedPlan recommendation;
  std::optional<Trial> trial;
  std::optional<Trial> awaiting_approval;
  std::optional<bool> was_running;
  std::optional<std::string> rank_0_log;

  static constexpr void fields(auto&& visit) {
    JobSummary::fields(visit);
    visit("fingerprint", &Job::fingerprint, Presence::kUsual, "Of the hardware that its costs are of.");
    visit("launch", &Job::launch, Presence::kUsual, "Number of its latest launch.");
    visit("evaluations", &Job::evaluations, Presence::kUsual, "Plans that searches have priced.");
    visit("incumbent", &Job::incumbent, Presence::kUsual, "What it runs.");
    visit("initial", &Job::initial, Presence::kUsual, "What it began with.");
    visit("best_prediction_ms", &Job::best_prediction_ms, Presence::kUsual, "Of the incumbent and the latest trial.");
    visit("recommendation", &Job::recommendation, Presence::kUsual, "A plan that may not be tried here.");
    visit("trial", &Job::trial, Presence::kUsual, "That goes on; null: none.");
    visit("awaiting_approval", &Job::awaiting_approval, Presence::kUsual, "The same, while somebody is to approve it.");
    visit("rank_0_log", &Job::rank_0_log, Presence::kIfAny, "What rank 0 prints, as NODE:PATH; missing: not known.");
    visit("was_running", &Job::was_running, Presence::kIfAny, "Of one that was handed in: whether it ran before that.");
  }
};

struct Jobs {
  std::vector<JobSummary> jobs;

  static constexpr void fields(auto&& visit) { visit("jobs", &Jobs::jobs, Presence::kNeeded, ""); }
};

}  // namespace trimtab::api
