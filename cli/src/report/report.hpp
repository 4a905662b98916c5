#pragma once

// The tune report (schema/api/report.hpp) as its page and its summary need it: plans and timelines as types, and
// nothing where the document has 0 for what nobody knows. Pure, but for write_report().

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plans/told_plan.hpp"
#include "schema/api/report.hpp"
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
  std::optional<ToldPlan> plan;
  std::optional<double> predicted_ms;         // with what trials had taught
  std::optional<double> predicted_before_ms;  // by the costs alone
  std::optional<Measured> measured;
  std::vector<tuner::TimelineEvent> timeline;           // predicted
  std::vector<tuner::TimelineEvent> measured_timeline;  // empty = not recorded
};

struct ReportTrial {
  api::ReportTrial told;  // its plan apart
  std::string id;
  ReportRun run;
  std::optional<api::Ratio> speedup;  // over the incumbent beside it, where it was measured
};

// A plan that the search offered and nobody ran.
struct ReportNotTried {
  std::optional<ToldPlan> plan;
  std::optional<double> predicted_ms;
  std::string reason;
};

struct ReportData {
  api::Report told;  // the plans and trials below apart
  // It had no plan: it ran as its user launched it.
  [[nodiscard]] bool is_as_launched() const;
  ReportRun initial;
  std::optional<ReportRun> adopted;
  std::optional<ToldPlan> recommended;
  std::vector<ReportTrial> trials;
  std::vector<ReportNotTried> not_tried;
};

// Fails on text that is not a JSON object of this schema, or whose present members have another type; the error names
// the member.
[[nodiscard]] Result<ReportData> parse_report(std::string_view json, std::string_view source);

// As a page: self-contained (no script, no external resource), light or dark as the reader's system. It shows what
// there is.
[[nodiscard]] std::string report_html(const ReportData& report);
// Writes report.json and report.html. The page is a view: what it cannot show is still in report.json.
[[nodiscard]] Result<ReportData> write_report(const std::string& directory, std::string_view json,
                                              std::string_view source);
// As a summary for the terminal.
[[nodiscard]] std::string report_text(const ReportData& report);

}  // namespace trimtab::cli
