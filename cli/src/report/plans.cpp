#include <algorithm>

#include "base/numbers.hpp"
#include "charts/gantt.hpp"
#include "charts/svg.hpp"
#include "plans/plan_text.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

constexpr double kLeft = 66;
constexpr double kPlot = 390;
constexpr double kRow = 30;

std::int32_t operators_of(const Plan& plan) {
  std::int32_t end = 1;
  for (const Stage& stage : plan.stages) end = std::max(end, stage.operators().end);
  return end;
}

std::string range_tooltip(const char* what, const Range& range) {
  return std::string(what) + " operators " + describe(range);
}

void draw_stage(Svg& svg, const Stage& stage, std::size_t index, double width) {
  const double y = 6 + kRow * static_cast<double>(index);
  svg.text(kLeft - 8, y + 15, "stage " + std::to_string(index), "label", Anchor::kEnd);
  svg.rectangle(kLeft, y, kPlot, kRow - 8, "lane");
  const Range all = stage.operators();
  svg.rectangle(kLeft + all.begin * width, y, all.size() * width, kRow - 8, "keeps", range_tooltip("keeps", all));
  for (const Segment& segment : stage.segments) {
    for (const Range& range : segment.recompute) {
      svg.rectangle(kLeft + range.begin * width, y, range.size() * width, kRow - 8, "recomputes",
                    range_tooltip("recomputes", range));
    }
  }
}

std::string drawing(const Plan& plan, const std::string& title) {
  const auto stages = static_cast<double>(plan.stages.size());
  const std::int32_t operators = operators_of(plan);
  const double bottom = 6 + kRow * stages;
  Svg svg(kLeft + kPlot + 14, bottom + 40, title,
          "Which stage runs which of the " + std::to_string(operators) + " operators, and which are recomputed.");
  for (std::size_t i = 0; i < plan.stages.size(); ++i) draw_stage(svg, plan.stages[i], i, kPlot / operators);
  svg.text(kLeft, bottom + 8, "operator 0", "small");
  svg.text(kLeft + kPlot, bottom + 8, std::to_string(operators), "small", Anchor::kEnd);
  svg.rectangle(kLeft, bottom + 20, 12, 12, "keeps");
  svg.text(kLeft + 17, bottom + 30, "keeps activations", "small");
  svg.rectangle(kLeft + 140, bottom + 20, 12, 12, "recomputes");
  svg.text(kLeft + 157, bottom + 30, "recomputes them", "small");
  return svg.str();
}

std::string table(const Plan& plan) {
  std::string rows;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    for (const Segment& segment : stage.segments) {
      rows += "<tr>" + cell(std::to_string(i)) + cell(devices_of(stage, ", ")) + cell(describe(segment.operators)) +
              cell(std::to_string(segment.dp), "number") + cell(std::to_string(segment.tp), "number") +
              cell(describe(segment.sharded)) + cell(describe(normalized(segment.recompute))) + "</tr>\n";
    }
  }
  return html_table({"Stage", "Devices", "Operators", ">dp", ">tp", "Sharded", "Recompute"}, rows);
}

std::string plan_block(const std::optional<ToldPlan>& shown, const std::string& title) {
  if (!shown) return "";
  const auto& [plan, words] = *shown;
  const std::string in_words = words.empty() ? "" : "<p><code>" + escape(words) + "</code></p>\n";
  return "<div>\n<h3>" + escape(title) + " plan</h3>\n" + in_words + "<p class=\"soft\">Microbatch " +
         std::to_string(plan.microbatch) + " of a global batch of " + std::to_string(plan.global_batch) + ", " +
         std::string(describe(plan.schedule.kind)) + " with " + std::string(describe(plan.schedule.transfers)) +
         " transfers, <code>" + semantic_hash(plan) + "</code></p>\n" + drawing(plan, title + " plan: stages") +
         table(plan) + "</div>\n";
}

std::string changes_table(const ReportData& report) {
  if (!report.initial.plan || !report.adopted || !report.adopted->plan) return "";
  std::string rows;
  for (const PlanChange& change : differences(report.initial.plan->plan, report.adopted->plan->plan)) {
    rows +=
        "<tr><td><code>" + escape(change.field) + "</code></td>" + cell(change.before) + cell(change.after) + "</tr>\n";
  }
  if (rows.empty()) return "<p>The adopted plan is the initial one.</p>\n";
  return "<h3>What changed</h3>\n" + html_table({"Field", "Initial", "Adopted"}, rows);
}

std::string timeline_figure(const std::vector<tuner::TimelineEvent>& timeline, const std::string& title,
                            double span_ms) {
  if (timeline.empty()) return "";
  return figure(gantt_svg(timeline, {title, span_ms, false}), escape(title) + ", " + format_ms(end_of(timeline)));
}

}  // namespace

std::string plans_section(const ReportData& report) {
  std::string blocks = plan_block(report.initial.plan, "Initial");
  if (report.adopted) blocks += plan_block(report.adopted->plan, "Adopted");
  blocks += plan_block(report.recommended, "Recommended");
  if (blocks.empty()) return "";
  return section("What was gained: the plans", "<div class=\"pair\">\n" + blocks + "</div>\n" + changes_table(report));
}

std::string timelines_section(const ReportData& report) {
  const ReportRun adopted = report.adopted.value_or(ReportRun{});
  const double span = std::max({end_of(report.initial.timeline), end_of(report.initial.measured_timeline),
                                end_of(adopted.timeline), end_of(adopted.measured_timeline)});
  const bool predates = initial_predates_change(report);
  std::string body = timeline_figure(
      report.initial.timeline,
      predates ? "Initial plan, predicted for the machine as it is now" : "Initial plan, predicted", span);
  body +=
      timeline_figure(report.initial.measured_timeline,
                      predates ? "Initial plan, measured before the machine changed" : "Initial plan, measured", span);
  body += timeline_figure(adopted.timeline, "Adopted plan, predicted", span);
  return section("One iteration", body + timeline_figure(adopted.measured_timeline, "Adopted plan, measured", span));
}

}  // namespace trimtab::cli
