#pragma once

// The tune report (report.json) as values. What a report may lack is optional here: the page shows what there is.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/plan.hpp"
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

struct ReportTrial {
  std::string id;
  ReportRun run;
  std::string state;
  std::string reason;   // "slower", "out_of_memory"
  std::string message;  // of a failure, for people
  std::optional<double> switch_ms;
  std::optional<double> steps;
};

// A plan that the search offered and nobody ran.
struct ReportNotTried {
  std::optional<Plan> plan;
  std::optional<double> predicted_ms;
  std::string reason;
};

struct Interval {
  double value = 0;
  std::optional<double> low;
  std::optional<double> high;
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

// Of the hardware under the running job.
struct ReportChange {
  double step = 0;
  std::string text;
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
  std::optional<LossCheck> loss;
  std::vector<ReportTrial> trials;
  std::vector<ReportNotTried> not_tried;
  std::vector<ReportChange> changes;
  std::optional<double> error_before;
  std::optional<double> error_after;
  std::map<std::string, std::string> profiled;  // name to text, as the document has them
  std::map<std::string, std::string> search;
  std::map<std::string, std::string> noise;
  std::string explanation;  // of the search
  std::string conclusion;   // why tuning ended
  std::string failure;
  std::optional<double> seconds;
};

// Fails on text that is not a JSON object of this schema, or whose present fields have another type; the error names
// the field.
[[nodiscard]] Result<ReportData> parse_report(std::string_view json, std::string_view source);

}  // namespace trimtab::cli
