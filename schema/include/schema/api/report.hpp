#pragma once

// The tune report, report.json (schema/json/report.schema.json is made from this): what one tuning run did and found.
// Times are in ms unless a name says seconds. Intervals are 95 %.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/job.hpp"
#include "schema/api/phase.hpp"
#include "schema/api/timeline.hpp"
#include "schema/api/trial.hpp"

namespace trimtab::api {

enum class ReportVersion { k1 };
[[nodiscard]] std::span<const std::string_view> words_of(ReportVersion version);

struct Measured {
  static constexpr const char* kName = "measured";
  double mean = 0;  // 0 = not measured
  std::optional<double> low;
  std::optional<double> high;
  std::int64_t steps = 0;

  static constexpr void fields(auto&& visit) {
    visit("mean", &Measured::mean, Presence::kUsual, "0 where nothing was measured.");
    visit("low", &Measured::low, Presence::kUsual, "");
    visit("high", &Measured::high, Presence::kUsual, "");
    visit("steps", &Measured::steps, Presence::kUsual, "");
  }
};

struct MeasuredPlan {
  static constexpr const char* kName = "measured_plan";
  CarriedPlan plan;
  std::string hash;
  std::optional<double> predicted_ms;
  std::optional<Interval> predicted_interval_ms;
  std::optional<double> predicted_before_calibration_ms;
  std::optional<Measured> measured_ms;

  static constexpr void fields(auto&& visit) {
    visit("plan", &MeasuredPlan::plan, Presence::kAlways, "");
    visit("hash", &MeasuredPlan::hash, Presence::kUsual, "Equal for plans that mean the same.");
    visit("predicted_ms", &MeasuredPlan::predicted_ms, Presence::kUsual,
          "With what trials had taught; 0: nobody could tell.");
    visit("predicted_interval_ms", &MeasuredPlan::predicted_interval_ms, Presence::kUsual, "");
    visit("predicted_before_calibration_ms", &MeasuredPlan::predicted_before_calibration_ms, Presence::kUsual,
          "By the costs alone.");
    visit("measured_ms", &MeasuredPlan::measured_ms, Presence::kAlways, "");
  }
};

struct TrialCost {
  std::optional<double> switch_ms;
  std::optional<SwitchPhases> switch_phases_ms;
  std::optional<double> overhead_ms;
  std::optional<std::int64_t> steps;

  static constexpr void fields(auto&& visit) {
    visit("switch_ms", &TrialCost::switch_ms, Presence::kUsual, "What the longest change to its plan took.");
    visit("switch_phases_ms", &TrialCost::switch_phases_ms, Presence::kIfAny, "Where the time of that change went.");
    visit("overhead_ms", &TrialCost::overhead_ms, Presence::kUsual, "Beyond the incumbent's steps.", Sign::kAny);
    visit("steps", &TrialCost::steps, Presence::kUsual, "Those of the incumbent beside it included.");
  }
};

using TrialId = std::variant<std::int64_t, std::string>;  // other tools' need not be numbers

struct ReportTrial : MeasuredPlan {
  static constexpr const char* kName = "trial";
  std::optional<TrialId> id;
  Word<TrialState> state;
  std::string reason;
  std::string message;
  std::vector<TrialStage> stages;
  std::optional<Measured> incumbent_ms;
  std::optional<Ratio> speedup;
  std::int64_t break_even_steps = 0;
  TrialCost cost;

  static constexpr void fields(auto&& visit) {
    MeasuredPlan::fields(visit);
    visit("id", &ReportTrial::id, Presence::kAlways, "From 1.");
    visit("state", &ReportTrial::state, Presence::kAlways, "");
    visit("reason", &ReportTrial::reason, Presence::kUsual, "Of a failed or rejected one: \"slower\".");
    visit("message", &ReportTrial::message, Presence::kUsual, "Of a failure, for people.");
    visit("stages", &ReportTrial::stages, Presence::kUsual, "Where a step went, stage by stage.");
    visit("incumbent_ms", &ReportTrial::incumbent_ms, Presence::kUsual, "The incumbent, measured in turn with it.");
    visit("speedup", &ReportTrial::speedup, Presence::kUsual, "The incumbent over it.");
    visit("break_even_steps", &ReportTrial::break_even_steps, Presence::kUsual,
          "Of an adopted one: until the change to it has paid; 0: not known.");
    visit("cost", &ReportTrial::cost, Presence::kUsual, "");
  }
};

// One whose plan is forgotten (docs/protocols.md).
struct EarlierTrial {
  std::int64_t id = 0;
  std::string hash;
  Word<TrialState> state;
  std::string reason;
  double predicted_ms = 0;
  double measured_ms = 0;

  static constexpr void fields(auto&& visit) {
    visit("id", &EarlierTrial::id, Presence::kAlways, "From 1.");
    visit("hash", &EarlierTrial::hash, Presence::kAlways, "Of its plan.");
    visit("state", &EarlierTrial::state, Presence::kAlways, "");
    visit("reason", &EarlierTrial::reason, Presence::kUsual, "");
    visit("predicted_ms", &EarlierTrial::predicted_ms, Presence::kUsual, "");
    visit("measured_ms", &EarlierTrial::measured_ms, Presence::kUsual, "0 where nothing was measured.");
  }
};

struct NotTried {
  CarriedPlan plan;
  std::string hash;
  std::optional<double> predicted_ms;
  std::string reason;

  static constexpr void fields(auto&& visit) {
    visit("plan", &NotTried::plan, Presence::kAlways, "");
    visit("hash", &NotTried::hash, Presence::kUsual, "");
    visit("predicted_ms", &NotTried::predicted_ms, Presence::kUsual, "");
    visit("reason", &NotTried::reason, Presence::kAlways, "");
  }
};

struct Crash {
  double seconds = 0;
  std::int64_t step = 0;
  std::string hash;
  std::string why;

  static constexpr void fields(auto&& visit) {
    visit("seconds", &Crash::seconds, Presence::kAlways, "Since the job's begin.");
    visit("step", &Crash::step, Presence::kAlways, "That the job had come to.");
    visit("hash", &Crash::hash, Presence::kAlways, "Of the plan; empty: a launch in which no rank connected.");
    visit("why", &Crash::why, Presence::kAlways, "");
  }
};

// A cost that a change of the machine had made doubtful.
struct CostMeasuredAgain {
  std::string cost;
  double before = 0;
  double expected = 0;
  double now = 0;

  static constexpr void fields(auto&& visit) {
    visit("cost", &CostMeasuredAgain::cost, Presence::kUsual, "In words.");
    visit("before", &CostMeasuredAgain::before, Presence::kUsual, "Milliseconds, as costs said before the change.");
    visit("expected", &CostMeasuredAgain::expected, Presence::kUsual, "As probes had let one expect.");
    visit("now", &CostMeasuredAgain::now, Presence::kUsual, "As the ranks have measured it.");
  }
};

// In a pause of the running job, after a drift.
struct MeasuredAgain {
  std::int64_t doubtful = 0;
  std::int64_t step = 0;
  double took_ms = 0;
  std::vector<CostMeasuredAgain> costs;
  std::string left;

  static constexpr void fields(auto&& visit) {
    visit("doubtful", &MeasuredAgain::doubtful, Presence::kUsual, "Costs that the change had made so.");
    visit("step", &MeasuredAgain::step, Presence::kUsual, "Before which the ranks measured; 0: they did not.");
    visit("took_ms", &MeasuredAgain::took_ms, Presence::kUsual, "That training stood still.");
    visit("costs", &MeasuredAgain::costs, Presence::kUsual, "");
    visit("left", &MeasuredAgain::left, Presence::kUsual, "Why others were not; empty: all were.");
  }
};

// Step times changed for good under the incumbent; or they did not, and a look at the hardware found a change.
struct Drift {
  std::int64_t since_step = 0;
  std::int64_t noticed_step = 0;
  double before_ms = 0;
  double after_ms = 0;
  bool by_look = false;
  std::string during;
  std::string what;
  double confidence = 0;
  std::string stale;
  std::optional<std::int64_t> trials_before;
  std::optional<Ratio> gained_before;
  std::optional<MeasuredAgain> measured_again;

  static constexpr void fields(auto&& visit) {
    visit("since_step", &Drift::since_step, Presence::kUsual, "");
    visit("noticed_step", &Drift::noticed_step, Presence::kUsual, "");
    visit("before_ms", &Drift::before_ms, Presence::kUsual, "A step of the incumbent.");
    visit("after_ms", &Drift::after_ms, Presence::kUsual, "");
    visit("by_look", &Drift::by_look, Presence::kUsual, "Found by a look at the hardware: both times are equal.");
    visit("during", &Drift::during, Presence::kUsual, "\"trial 3\"; empty: the job trained.");
    visit("what", &Drift::what, Presence::kUsual, "What changed; empty: not known.");
    visit("confidence", &Drift::confidence, Presence::kIfAny, "That all of `what` has changed; missing: not told.");
    visit("stale", &Drift::stale, Presence::kUsual, "Which costs that has made wrong.");
    visit("trials_before", &Drift::trials_before, Presence::kIfAny, "Trials up to here ran on the machine as it was.");
    visit("gained_before", &Drift::gained_before, Presence::kIfAny, "By the tuning that it ended.");
    visit("measured_again", &Drift::measured_again, Presence::kIfAny, "What it had made doubtful.");
  }
};

// The job went on with fewer nodes, or with more.
struct Resize {
  std::int64_t step = 0;
  std::string lost;
  std::int64_t devices = 0;
  std::string joined;
  std::string outcome;
  std::optional<std::int64_t> trials_before;

  static constexpr void fields(auto&& visit) {
    visit("step", &Resize::step, Presence::kUsual, "");
    visit("lost", &Resize::lost, Presence::kUsual, "Nodes.");
    visit("devices", &Resize::devices, Presence::kUsual, "That it went on with.");
    visit("joined", &Resize::joined, Presence::kIfAny, "Nodes.");
    visit("outcome", &Resize::outcome, Presence::kIfAny, "Of joined ones: \"kept\", or why they were left.");
    visit("trials_before", &Resize::trials_before, Presence::kIfAny, "Trials up to here ran on the devices before.");
  }
};

using LossPoint = std::pair<std::int64_t, std::optional<double>>;  // step, and loss where it was a number

struct LossCheck {
  std::int64_t steps = 0;
  std::optional<double> max_abs_difference_to_untuned_run;
  std::optional<bool> same_samples;
  std::string note;
  std::vector<LossPoint> tuned;
  std::vector<LossPoint> untuned;

  static constexpr void fields(auto&& visit) {
    visit("steps", &LossCheck::steps, Presence::kUsual, "That both runs have; 0: not compared.");
    visit("max_abs_difference_to_untuned_run", &LossCheck::max_abs_difference_to_untuned_run, Presence::kUsual, "");
    visit("same_samples", &LossCheck::same_samples, Presence::kUsual, "In the same order.");
    visit("note", &LossCheck::note, Presence::kUsual, "Why they were not compared, or not further.");
    visit("tuned", &LossCheck::tuned, Presence::kUsual, "Of the job's first steps: step and loss.", Sign::kAny);
    visit("untuned", &LossCheck::untuned, Presence::kUsual, "Of the run apart with the initial plan.", Sign::kAny);
  }
};

struct PredictionError {
  std::optional<double> before_calibration;
  std::optional<double> after_calibration;
  std::int64_t plans = 0;

  static constexpr void fields(auto&& visit) {
    visit("before_calibration", &PredictionError::before_calibration, Presence::kUsual, "");
    visit("after_calibration", &PredictionError::after_calibration, Presence::kUsual, "");
    visit("plans", &PredictionError::plans, Presence::kUsual, "That it is a mean over.");
  }
};

// What probes said of one class of near hardware's costs.
struct NearFinding {
  std::string of;
  std::string verdict;
  double factor = 1;
  double doubt = 0;
  std::int64_t probes = 0;

  static constexpr void fields(auto&& visit) {
    visit("of", &NearFinding::of, Presence::kUsual, "The class: \"computation\", \"links inside nodes\", ...");
    visit("verdict", &NearFinding::verdict, Presence::kUsual,
          "\"confirmed\" and \"scaled\" are taken over, \"refuted\" and \"unprobed\" were measured.");
    visit("factor", &NearFinding::factor, Presence::kUsual, "Of the near hardware's costs.");
    visit("doubt", &NearFinding::doubt, Presence::kUsual, "Standard deviation of the logarithm of each.");
    visit("probes", &NearFinding::probes, Presence::kUsual, "Costs that were compared.");
  }
};

struct TakenOver {
  std::string from;
  std::string differences;
  std::int64_t costs = 0;
  std::int64_t probes = 0;
  std::vector<NearFinding> findings;

  static constexpr void fields(auto&& visit) {
    visit("from", &TakenOver::from, Presence::kUsual, "The near hardware's fingerprint.");
    visit("differences", &TakenOver::differences, Presence::kUsual, "Of the job's hardware from it.");
    visit("costs", &TakenOver::costs, Presence::kUsual, "That plans need and nobody has measured here.");
    visit("probes", &TakenOver::probes, Presence::kUsual, "Costs that were measured first, to see which hold.");
    visit("findings", &TakenOver::findings, Presence::kUsual, "");
  }
};

struct Profiled {
  std::int64_t costs_measured = 0;
  std::int64_t costs_reused = 0;
  std::int64_t costs_taken_over = 0;
  std::int64_t costs_missing = 0;
  double seconds = 0;

  static constexpr void fields(auto&& visit) {
    visit("costs_measured", &Profiled::costs_measured, Presence::kUsual, "");
    visit("costs_reused", &Profiled::costs_reused, Presence::kUsual, "The database had them.");
    visit("costs_taken_over", &Profiled::costs_taken_over, Presence::kIfAny, "Of near hardware: not measured here.");
    visit("costs_missing", &Profiled::costs_missing, Presence::kUsual, "Nobody could measure them.");
    visit("seconds", &Profiled::seconds, Presence::kUsual, "");
  }
};

struct SearchAccount {
  std::uint64_t evaluations = 0;
  std::uint64_t searches = 0;
  double seconds = 0;
  std::string explanation;

  static constexpr void fields(auto&& visit) {
    visit("evaluations", &SearchAccount::evaluations, Presence::kUsual, "Plans that were priced.");
    visit("searches", &SearchAccount::searches, Presence::kUsual, "");
    visit("seconds", &SearchAccount::seconds, Presence::kUsual, "");
    visit("explanation", &SearchAccount::explanation, Presence::kUsual, "Why the adopted plan is faster.");
  }
};

struct ConvergencePoint {
  double seconds = 0;
  std::uint64_t evaluations = 0;
  std::int64_t trial = 0;
  double best_measured_ms = 0;
  double best_predicted_ms = 0;

  static constexpr void fields(auto&& visit) {
    visit("seconds", &ConvergencePoint::seconds, Presence::kUsual, "Since the job's begin.");
    visit("evaluations", &ConvergencePoint::evaluations, Presence::kUsual, "");
    visit("trial", &ConvergencePoint::trial, Presence::kUsual, "");
    visit("best_measured_ms", &ConvergencePoint::best_measured_ms, Presence::kUsual, "");
    visit("best_predicted_ms", &ConvergencePoint::best_predicted_ms, Presence::kUsual, "");
  }
};

// The spread of steps of one plan in one block: what a comparison has to see through.
struct Noise {
  double coefficient_of_variation = 0;
  std::uint64_t blocks = 0;

  static constexpr void fields(auto&& visit) {
    visit("coefficient_of_variation", &Noise::coefficient_of_variation, Presence::kUsual, "");
    visit("blocks", &Noise::blocks, Presence::kUsual, "That it is taken over.");
  }
};

// A step of a measured block.
struct MeasuredStep {
  std::uint64_t launch = 0;
  std::int64_t step = 0;
  std::uint64_t epoch = 0;
  std::int64_t trial = 0;
  std::int64_t block = -1;
  bool warmup = false;
  double wall_ms = 0;
  std::optional<double> loss;

  static constexpr void fields(auto&& visit) {
    visit("launch", &MeasuredStep::launch, Presence::kUsual, "");
    visit("step", &MeasuredStep::step, Presence::kUsual, "");
    visit("epoch", &MeasuredStep::epoch, Presence::kUsual, "Of its plan.");
    visit("trial", &MeasuredStep::trial, Presence::kUsual, "0: initial measurement or final comparison.");
    visit("block", &MeasuredStep::block, Presence::kUsual, "-1: in none.", Sign::kAny);
    visit("warmup", &MeasuredStep::warmup, Presence::kUsual, "It counts for nothing.");
    visit("wall_ms", &MeasuredStep::wall_ms, Presence::kUsual, "");
    visit("loss", &MeasuredStep::loss, Presence::kUsual, "", Sign::kAny);
  }
};

struct Report {
  Word<ReportVersion> schema;
  std::string job;
  std::string mode;
  Word<Phase> phase;
  std::string fingerprint;
  MeasuredPlan initial;
  std::optional<MeasuredPlan> adopted;
  std::optional<Ratio> speedup;
  bool compared = true;
  std::optional<Gain> gain;
  std::optional<Ratio> retuned;
  std::optional<LossCheck> loss;
  std::vector<ReportTrial> trials;
  std::vector<EarlierTrial> earlier_trials;
  std::vector<NotTried> not_tried;
  PredictionError prediction_error;
  std::optional<Profiled> profiled;
  std::optional<TakenOver> taken_over;
  std::optional<double> seconds;
  std::optional<double> tuning_seconds;
  std::string conclusion;
  std::string failure;
  CarriedPlan recommendation;
  std::optional<SearchAccount> search;
  std::vector<ConvergencePoint> convergence;
  std::vector<Drift> drifts;
  std::vector<Crash> crashes;
  std::vector<Resize> resizes;
  std::optional<Overhead> overhead;
  std::optional<Noise> noise;
  std::vector<MeasuredStep> steps;
  std::optional<Timelines> timeline;
  Carried calibration;
  CarriedCluster cluster;
  std::uint64_t launches = 0;

  static constexpr void fields(auto&& visit) {
    visit("schema", &Report::schema, Presence::kAlways, "");
    visit("job", &Report::job, Presence::kAlways, "");
    visit("mode", &Report::mode, Presence::kUsual, "");
    visit("phase", &Report::phase, Presence::kUsual, "");
    visit("fingerprint", &Report::fingerprint, Presence::kAlways, "Of the hardware that costs are of.");
    visit("initial", &Report::initial, Presence::kAlways, "");
    visit("adopted", &Report::adopted, Presence::kAlways, "");
    visit("speedup", &Report::speedup, Presence::kAlways, "Initial over adopted, measured in turn in one run.");
    visit("compared", &Report::compared, Presence::kUsual,
          "False: they were not measured in turn at the end, and `speedup` is what trials measured, or 1.");
    visit("gain", &Report::gain, Presence::kUsual,
          "What the latest tuning has gained, whatever ended it; null: nothing was measured.");
    visit("retuned", &Report::retuned, Presence::kUsual,
          "By plans adopted since the last of `drifts`, over the plan before it; null: none.");
    visit("loss", &Report::loss, Presence::kUsual, "The job's losses beside those of an untuned run.");
    visit("trials", &Report::trials, Presence::kAlways, "");
    visit("earlier_trials", &Report::earlier_trials, Presence::kIfAny, "Those whose plans are forgotten.");
    visit("not_tried", &Report::not_tried, Presence::kUsual, "Offered by the search, but too like a measured plan.");
    visit("prediction_error", &Report::prediction_error, Presence::kUsual, "Mean, as a share of what was measured.");
    visit("profiled", &Report::profiled, Presence::kAlways, "");
    visit("taken_over", &Report::taken_over, Presence::kIfAny, "Costs of near hardware; absent: none.");
    visit("seconds", &Report::seconds, Presence::kAlways, "Of the whole run.");
    visit("tuning_seconds", &Report::tuning_seconds, Presence::kUsual, "Until tuning was over.");
    visit("conclusion", &Report::conclusion, Presence::kUsual, "Why tuning ended.");
    visit("failure", &Report::failure, Presence::kUsual, "Why the job failed.");
    visit("recommendation", &Report::recommendation, Presence::kUsual, "A plan that could not be tried here.");
    visit("search", &Report::search, Presence::kUsual, "");
    visit("convergence", &Report::convergence, Presence::kUsual, "How good a plan had been found by when.");
    visit("drifts", &Report::drifts, Presence::kUsual, "What changed on the machine while the job ran.");
    visit("crashes", &Report::crashes, Presence::kIfAny, "Those that count against a plan.");
    visit("resizes", &Report::resizes, Presence::kIfAny, "Nodes that went or came while the job ran.");
    visit("overhead", &Report::overhead, Presence::kUsual, "What tuning has cost beyond the incumbent's steps.");
    visit("noise", &Report::noise, Presence::kUsual, "");
    visit("steps", &Report::steps, Presence::kUsual, "Those that were measured.");
    visit("timeline", &Report::timeline, Presence::kUsual, "Pictures of a step under either plan; null: none.");
    visit("calibration", &Report::calibration, Presence::kUsual, "What trials have taught the cost model.");
    visit("cluster", &Report::cluster, Presence::kUsual, "That the job ran on last.");
    visit("launches", &Report::launches, Presence::kUsual, "");
  }
};

// Indented, for people.
template <>
[[nodiscard]] std::string to_json(const Report& report);
// Refuses another version than "trimtab.report/1".
template <>
[[nodiscard]] Result<Report> parse(std::string_view json, std::string_view source);

}  // namespace trimtab::api
