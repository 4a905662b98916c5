#include <algorithm>
#include <array>
#include <functional>

#include "base/numbers.hpp"
#include "charts/gantt.hpp"
#include "charts/stage_time.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

constexpr double kLeft = 150;
constexpr double kPlot = 760;
constexpr double kTop = 30;
constexpr double kBar = 18;
constexpr double kRow = 24;
constexpr std::size_t kMostStages = 16;  // of more, the slowest to wait are drawn

constexpr std::array<const char*, kActivities> kClasses{"forward",       "backward", "recompute", "optimizer",
                                                        "gradient_sync", "transfer", "waiting"};

struct PlanTime {
  std::string name;  // "Initial plan, measured"
  std::vector<StageTime> stages;
  double length_ms = 0;
  bool measured = false;
};

std::optional<PlanTime> plan_time(const ReportRun& run, const std::string& name, bool predates_change = false) {
  const bool measured = !run.measured_timeline.empty();
  const auto& timeline = measured ? run.measured_timeline : run.timeline;
  if (timeline.empty()) return std::nullopt;
  const std::string when = measured && predates_change ? " before the machine changed" : "";
  return PlanTime{name + (measured ? ", measured" : ", predicted") + when, stage_times(timeline), end_of(timeline),
                  measured};
}

double share(const std::array<double, kActivities>& shares, Activity activity) {
  return shares[static_cast<std::size_t>(activity)];
}

// What an iteration would do without, best known cause first.
std::string largest_loss(const std::array<double, kActivities>& shares) {
  struct Loss {
    double share;
    const char* what;
  };
  const std::array<Loss, 3> losses{Loss{share(shares, Activity::kWaiting), "stages waiting for one another"},
                                   Loss{share(shares, Activity::kRecompute), "activations computed a second time"},
                                   Loss{share(shares, Activity::kTransfer) + share(shares, Activity::kGradientSync),
                                        "communication with nothing computed beside it"}};
  const Loss& most = *std::ranges::max_element(losses, {}, &Loss::share);
  if (most.share < 0.005) return "";
  return " The largest loss was " + std::string(most.what) + ", " + format_percent(most.share) + " of the time.";
}

std::string sentence(const PlanTime& plan, bool with_loss) {
  const auto shares = mean_shares(plan.stages);
  const double computing =
      share(shares, Activity::kForward) + share(shares, Activity::kBackward) + share(shares, Activity::kOptimizer);
  const double communicating = share(shares, Activity::kTransfer) + share(shares, Activity::kGradientSync);
  return plan.name + ": of " + format_ms(plan.length_ms) + " devices spent " + format_percent(computing) +
         " on forward, backward and optimizer, " + format_percent(share(shares, Activity::kRecompute)) +
         " on recomputing, " + format_percent(communicating) + " on communication alone" +
         (plan.measured ? " (a receiver's wait for its sender included)" : "") + " and " +
         format_percent(share(shares, Activity::kWaiting)) + " waiting." + (with_loss ? largest_loss(shares) : "");
}

std::vector<StageTime> drawn_stages(const PlanTime& plan) {
  std::vector<StageTime> stages = plan.stages;
  if (stages.size() <= kMostStages) return stages;
  std::ranges::stable_sort(stages, std::greater(), [](const StageTime& one) { return one.ms.back(); });
  stages.resize(kMostStages);
  return stages;
}

void draw_legend(Svg& svg) {
  double x = kLeft;
  for (std::size_t i = 0; i < kActivities; ++i) {
    const std::string name(to_string(static_cast<Activity>(i)));
    svg.rectangle(x, 6, 11, 11, kClasses[i]);
    svg.text(x + 16, 16, name, "small");
    x += 36 + 6.2 * static_cast<double>(name.size());
  }
}

void draw_stage(Svg& svg, const StageTime& stage, double y, double pixels_per_ms) {
  svg.text(kLeft - 8, y + 13, "stage " + std::to_string(stage.stage), "small", Anchor::kEnd);
  double x = kLeft;
  for (std::size_t i = 0; i < kActivities; ++i) {
    const double width = stage.ms[i] * pixels_per_ms;
    if (width <= 0) continue;
    svg.rectangle(x, y, width, kBar, kClasses[i],
                  std::string(to_string(static_cast<Activity>(i))) + ": " + format_ms(stage.ms[i]));
    x += width;
  }
}

std::string drawing(const std::vector<PlanTime>& plans) {
  double span = 0;
  double height = kTop;
  for (const PlanTime& plan : plans) {
    span = std::max(span, plan.length_ms);
    height += kRow * static_cast<double>(drawn_stages(plan).size() + 1) + 6;
  }
  if (span <= 0) return "";
  Svg svg(kLeft + kPlot + 20, height + 26, "Where the time went",
          "For each stage of the plans, the time of one iteration by what it was spent on.");
  draw_legend(svg);
  double y = kTop;
  for (const PlanTime& plan : plans) {
    svg.text(8, y + 15, plan.name, "label");
    y += kRow;
    for (const StageTime& stage : drawn_stages(plan)) {
      draw_stage(svg, stage, y, kPlot / span);
      y += kRow;
    }
    y += 6;
  }
  for (const double value : ticks(0, span, 6)) {
    svg.text(kLeft + value / span * kPlot, y + 12, tick_label(value, span / 6) + " ms", "small", Anchor::kMiddle);
  }
  return svg.str();
}

}  // namespace

std::string time_section(const ReportData& report) {
  std::vector<PlanTime> plans;
  const bool predates = initial_predates_change(report);
  if (auto initial = plan_time(report.initial, "Initial plan", predates)) plans.push_back(std::move(*initial));
  if (report.adopted) {
    if (auto adopted = plan_time(*report.adopted, "Adopted plan")) plans.push_back(std::move(*adopted));
  }
  if (plans.empty()) return "";
  std::string body;
  for (std::size_t i = 0; i < plans.size(); ++i) body += "<p>" + escape(sentence(plans[i], i == 0)) + "</p>\n";
  const std::size_t stages = plans.front().stages.size();
  const std::string left_out =
      stages > kMostStages ? "; of " + std::to_string(stages) + " stages those that wait most" : "";
  return section("What was slow", body + figure(drawing(plans), "One iteration of each stage" + left_out +
                                                                    ". The two plans have one scale."));
}

}  // namespace trimtab::cli
