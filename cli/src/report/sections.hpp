#pragma once

// The sections of the report's page, each a piece of HTML, empty when the report has nothing for it. Pure.

#include "report/report.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string headline_section(const ReportData& report);
// Where the time of an iteration went, in the initial plan and in the adopted one.
[[nodiscard]] std::string time_section(const ReportData& report);
[[nodiscard]] std::string cost_section(const ReportData& report);
// What changed on the machine while the job ran.
[[nodiscard]] std::string changes_section(const ReportData& report);
[[nodiscard]] std::string plans_section(const ReportData& report);
[[nodiscard]] std::string timelines_section(const ReportData& report);
[[nodiscard]] std::string trials_section(const ReportData& report);
[[nodiscard]] std::string charts_section(const ReportData& report);
[[nodiscard]] std::string loss_section(const ReportData& report);
[[nodiscard]] std::string explanation_section(const ReportData& report);
[[nodiscard]] std::string provenance_section(const ReportData& report);

// Loss over steps of both runs; "" without any.
[[nodiscard]] std::string loss_chart(const api::LossCheck& loss);

// A look at the hardware found it, and no step.
[[nodiscard]] bool found_by_look(const api::Drift& drift);
// "From step 474 on a step took 1928 ms instead of 1009 ms", or what a look at the hardware found.
[[nodiscard]] std::string took(const api::Drift& drift);
// What the machine or the devices went through between the trial before and this one, a sentence without a full stop
// each: times before and after it are of different machines. REQUIRES: trial < report.trials.size().
[[nodiscard]] std::vector<std::string> changes_before(const ReportData& report, std::size_t trial);
// Whether the initial plan was measured on another machine than the one that plans were tried on since.
[[nodiscard]] bool initial_predates_change(const ReportData& report);
// "374 ms (371 to 377)"; "not measured".
[[nodiscard]] std::string measured_text(const std::optional<Measured>& measured);
// "1.37× (95 % interval 1.31 to 1.42)"
[[nodiscard]] std::string speedup_text(const api::Ratio& speedup, const std::string& interval = "95 % interval ");
// The job keeps the plan that it began with.
[[nodiscard]] bool kept_initial(const ReportData& report);
// What the adopted plan gains over the initial one was measured, and the machine did not change between.
[[nodiscard]] bool gained_on_one_machine(const ReportData& report);
// Its plan as named_plan() has it, for a terminal or a cell.
[[nodiscard]] std::string plan_of(const ReportRun& run, const std::string& otherwise);
// "microbatch 4; [0, 18) dp2: predicted 658 ms, differs from trial 2 …"
[[nodiscard]] std::string not_tried_text(const ReportNotTried& plan);
// "the same samples in the same order; loss within 0 of the untuned run over 40 steps".
[[nodiscard]] std::string loss_text(const api::LossCheck& loss);
// "120 costs of hardware F (driver 560.1 instead of 550.2), not measured here: computation as it was (± 4 %, 7
// probes)".
[[nodiscard]] std::string taken_over_text(const api::TakenOver& taken);

// <section> with a heading; "" for an empty body.
[[nodiscard]] std::string section(std::string_view title, const std::string& body);
// A drawing with a caption, both HTML. "" for an empty drawing.
[[nodiscard]] std::string figure(const std::string& drawing, const std::string& caption);
// The rows are <tr> of cells.
[[nodiscard]] std::string html_table(const std::vector<Column>& columns, const std::string& rows);
[[nodiscard]] std::string cell(std::string_view text, const std::string& css_class = "");

}  // namespace trimtab::cli
