#pragma once

// The tune report (report.json) as values. What a report may lack is optional here: the page shows what there is.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "jobs/switch_phases.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::cli {

struct Measured {
  double mean = 0;
  double low = 0;
  double high = 0;
  std::int64_t steps = 0;
};

// The initial plan, the adopted one, or a trial's.
struct ReportRun {
  std::optional<Plan> plan;
  std::optional<double> predicted_ms;         // with what trials had taught
  std::optional<double> predicted_before_ms;  // by the costs alone
  std::optional<Measured> measured;
  std::vector<tuner::TimelineEvent> timeline;           // predicted
  std::vector<tuner::TimelineEvent> measured_timeline;  // empty = not recorded
};

struct Interval {
  double value = 0;
  std::optional<double> low;
  std::optional<double> high;
};

// Where a step of one stage went.
struct ReportStage {
  std::optional<StepTerms> predicted;  // before the trial
  std::optional<StepTerms> measured;   // a mean over its ranks
};

struct ReportTrial {
  std::string id;
  ReportRun run;
  std::string state;
  std::string reason;   // "slower", "out_of_memory"
  std::string message;  // of a failure, for people
  std::optional<double> switch_ms;
  SwitchPhases switch_phases;  // of the longest change; empty = not told
  std::optional<double> steps;
  std::optional<Interval> speedup;    // over the incumbent beside it, where it was measured
  std::optional<double> overhead_ms;  // what it cost beyond the incumbent's steps
  std::int64_t break_even_steps = 0;  // of an adopted one; 0 = not known
  std::vector<ReportStage> stages;    // empty = nobody told
};

// What trials cost beyond the incumbent's steps, and what they might.
struct ReportOverhead {
  double ms = 0;
  double share = 0;  // of the time that the job takes
  double allowed_share = 0;
};

struct ReportDrift {
  std::int64_t since_step = 0;
  std::int64_t noticed_step = 0;
  double before_ms = 0;
  double after_ms = 0;
  std::string what;                           // changed; empty = not known
  std::string stale;                          // which costs that has made wrong
  std::optional<std::int64_t> trials_before;  // ids up to here were made on the machine as it was
  std::string during;                         // "trial 3"; empty = the job trained
  std::optional<Interval> gained_before;      // by the tuning that it ended, over the plan which that began from
  // A look at the hardware found it, and no step.
  [[nodiscard]] bool by_look() const { return before_ms == after_ms; }
};

struct ReportResize {
  std::int64_t step = 0;
  std::string lost;  // nodes
  std::int64_t devices = 0;
  std::string joined;                         // nodes
  std::string outcome;                        // of joined ones
  std::optional<std::int64_t> trials_before;  // ids up to here were made on the devices before
};

// A plan that the search offered and nobody ran.
struct ReportNotTried {
  std::optional<Plan> plan;
  std::optional<double> predicted_ms;
  std::string reason;
};

struct LossPoint {
  double step = 0;
  double loss = 0;
};

struct LossCheck {
  double steps = 0;  // compared with the untuned run; 0 = none
  std::optional<double> max_difference;
  std::optional<bool> same_samples;
  std::string note;  // why it was not compared, or not further
  std::vector<LossPoint> tuned;
  std::vector<LossPoint> untuned;
};

struct ReportData {
  std::string job;
  std::string fingerprint;
  std::string mode;
  ReportRun initial;
  std::optional<ReportRun> adopted;
  std::optional<Plan> recommended;
  bool compared = true;  // initial and adopted plan were measured in turn
  std::optional<Interval> speedup;
  std::optional<Interval> retuned;  // by plans adopted since the last of `drifts`, beside the plan before it
  std::optional<LossCheck> loss;
  std::vector<ReportTrial> trials;
  std::vector<ReportNotTried> not_tried;
  std::optional<double> error_before;
  std::optional<double> error_after;
  std::map<std::string, std::string> profiled;  // name to text, as the document has them
  std::map<std::string, std::string> search;
  std::map<std::string, std::string> noise;
  std::string explanation;  // of the search
  std::string conclusion;   // why tuning ended
  std::string failure;
  std::optional<double> seconds;
  std::optional<double> tuning_seconds;
  std::optional<double> profiling_seconds;
  std::optional<ReportOverhead> overhead;
  std::vector<ReportDrift> drifts;
  std::vector<ReportResize> resizes;
};

// Fails on text that is not a JSON object of this schema, or whose present fields have another type; the error names
// the field.
[[nodiscard]] Result<ReportData> parse_report(std::string_view json, std::string_view source);

}  // namespace trimtab::cli
