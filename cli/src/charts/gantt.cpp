#include "charts/gantt.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/numbers.hpp"
#include "charts/svg.hpp"

namespace trimtab::cli {

namespace {

using tuner::EventKind;
using tuner::TimelineEvent;

constexpr double kLeft = 70;
constexpr double kPlot = 860;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kComputation = 24;
constexpr double kCommunication = 8;
constexpr double kRow = kComputation + kCommunication + 12;
constexpr double kLabelWidth = 16;  // narrower bars carry no number

std::string title_of(EventKind kind) {
  std::string name(to_string(kind));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string tooltip(const TimelineEvent& event) {
  std::string text = title_of(event.kind);
  if (event.microbatch >= 0) text += " of microbatch " + std::to_string(event.microbatch);
  return text + ", stage " + std::to_string(event.stage) + ": " + format_ms(event.begin_ms) + " to " +
         format_ms(event.end_ms) + " (" + format_ms(event.end_ms - event.begin_ms) + ")";
}

// A bar; several events that are each too thin to be seen and touch one another are drawn as one.
struct Bar {
  TimelineEvent event;
  int events = 1;
};

std::vector<Bar> bars_of(const std::vector<TimelineEvent>& timeline, double pixels_per_ms) {
  std::vector<Bar> bars;
  std::map<std::pair<std::int32_t, bool>, std::size_t> last;  // the newest bar of each lane
  for (const TimelineEvent& event : timeline) {
    const auto lane = std::make_pair(event.stage, is_computation(event.kind));
    const auto found = last.find(lane);
    const bool thin = (event.end_ms - event.begin_ms) * pixels_per_ms < 0.75;
    if (thin && found != last.end()) {
      Bar& bar = bars[found->second];
      const bool touches = (event.begin_ms - bar.event.end_ms) * pixels_per_ms < 0.75;
      if (touches && bar.event.kind == event.kind) {
        bar.event.end_ms = std::max(bar.event.end_ms, event.end_ms);
        ++bar.events;
        continue;
      }
    }
    last[lane] = bars.size();
    bars.push_back({event, 1});
  }
  return bars;
}

double top_of(const TimelineEvent& event) {
  return kTop + event.stage * kRow + (is_computation(event.kind) ? 0 : kComputation + 2);
}

double height_of(const TimelineEvent& event) {
  return is_computation(event.kind) ? kComputation : kCommunication;
}

void draw_bar(Svg& svg, const Bar& bar, double pixels_per_ms) {
  const TimelineEvent& event = bar.event;
  const bool computation = is_computation(event.kind);
  const double x = kLeft + event.begin_ms * pixels_per_ms;
  const double y = top_of(event);
  const double width = std::max(0.4, (event.end_ms - event.begin_ms) * pixels_per_ms);
  const double height = height_of(event);
  const std::string what = bar.events == 1 ? tooltip(event) : std::to_string(bar.events) + " events: " + tooltip(event);
  svg.rectangle(x, y, width, height, std::string(to_string(event.kind)) + (width > 3 ? " event" : ""), what);
  const bool labelled = bar.events == 1 && computation && event.microbatch >= 0 && width >= kLabelWidth;
  if (labelled) svg.text(x + width / 2, y + 16, std::to_string(event.microbatch), "inside", Anchor::kMiddle);
}

// Stays of the critical path: actions of one stage's lane that follow one another, as one event each.
std::vector<TimelineEvent> stays_of(const std::vector<TimelineEvent>& actions, double pixels_per_ms) {
  std::vector<TimelineEvent> stays;
  for (const TimelineEvent& action : actions) {
    const bool goes_on = !stays.empty() && stays.back().stage == action.stage &&
                         is_computation(stays.back().kind) == is_computation(action.kind) &&
                         (action.begin_ms - stays.back().end_ms) * pixels_per_ms < 0.75;
    if (goes_on) {
      stays.back().end_ms = action.end_ms;
    } else {
      stays.push_back(action);
    }
  }
  return stays;
}

void draw_path(Svg& svg, const std::vector<TimelineEvent>& actions, double pixels_per_ms) {
  const std::vector<TimelineEvent> stays = stays_of(actions, pixels_per_ms);
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const TimelineEvent& stay = stays[i];
    const double begin = kLeft + stay.begin_ms * pixels_per_ms;
    const double end = kLeft + stay.end_ms * pixels_per_ms;
    svg.rectangle(begin, top_of(stay), std::max(0.4, end - begin), height_of(stay), "critical",
                  "critical path, stage " + std::to_string(stay.stage) + ": " + format_ms(stay.begin_ms) + " to " +
                      format_ms(stay.end_ms) + " (" + format_ms(stay.end_ms - stay.begin_ms) + ")");
    if (i + 1 == stays.size()) continue;
    svg.line(end, top_of(stay) + height_of(stay) / 2, kLeft + stays[i + 1].begin_ms * pixels_per_ms,
             top_of(stays[i + 1]) + height_of(stays[i + 1]) / 2, "critical-hop");
  }
}

void draw_frame(Svg& svg, std::int32_t stages, std::int32_t master, double span_ms, double pixels_per_ms) {
  const double bottom = kTop + stages * kRow - 6;
  const std::vector<double> values = ticks(0, span_ms, 8);
  const double step = values.size() > 1 ? values[1] - values[0] : span_ms;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const double y = kTop + stage * kRow;
    svg.rectangle(kLeft, y, kPlot, kRow - 8, "lane");
    svg.text(kLeft - 8, y + 16, "stage " + std::to_string(stage), stage == master ? "label master" : "label",
             Anchor::kEnd);
    if (stage == master) svg.text(kLeft - 8, y + 29, "master", "small master", Anchor::kEnd);
  }
  for (const double value : values) {
    const double x = kLeft + value * pixels_per_ms;
    svg.line(x, kTop - 4, x, bottom, "grid");
    svg.text(x, bottom + 14, tick_label(value, step), "small", Anchor::kMiddle);
  }
  svg.text(kLeft + kPlot, bottom + 30, "milliseconds", "small", Anchor::kEnd);
}

void draw_legend(Svg& svg, const std::vector<TimelineEvent>& timeline, bool path) {
  double x = kLeft;
  for (const EventKind kind : kTimelineKinds) {
    const bool used =
        std::any_of(timeline.begin(), timeline.end(), [&](const auto& event) { return event.kind == kind; });
    if (!used) continue;
    const std::string title = title_of(kind);
    svg.rectangle(x, 12, 12, 12, to_string(kind));
    svg.text(x + 17, 22, title, "small");
    x += 34 + 6.2 * static_cast<double>(title.size());
  }
  if (!path) return;
  svg.rectangle(x, 12, 12, 12, "critical");
  svg.text(x + 17, 22, "critical path", "small");
}

std::string summary(std::int32_t stages, double end_ms, std::int32_t master) {
  return "Timeline of one iteration over " + std::to_string(stages) + " pipeline stages, " + format_ms(end_ms) +
         " long. Each bar is the pass of one microbatch; the number on it is the microbatch's." +
         (master < 0 ? ""
                     : " The critical path is outlined; it stays longest on stage " + std::to_string(master) +
                           ", the master stage.");
}

}  // namespace

bool is_computation(EventKind kind) {
  return kind != EventKind::kTransfer && kind != EventKind::kGradientSync;
}

double end_of(const std::vector<TimelineEvent>& timeline) {
  double end = 0;
  for (const TimelineEvent& event : timeline) end = std::max(end, event.end_ms);
  return end;
}

std::string gantt_svg(const std::vector<TimelineEvent>& timeline, const GanttOptions& options) {
  const double end = end_of(timeline);
  const double span = std::max({options.span_ms, end, 1e-6});
  const double pixels_per_ms = kPlot / span;
  std::int32_t stages = 1;
  for (const TimelineEvent& event : timeline) stages = std::max(stages, event.stage + 1);
  const double height = kTop + stages * kRow + 34;
  Svg svg(kLeft + kPlot + kRight, height, options.title, summary(stages, end, options.path.master_stage));
  if (options.standalone) svg.rectangle(0, 0, kLeft + kPlot + kRight, height, "paper");
  draw_legend(svg, timeline, !options.path.actions.empty());
  draw_frame(svg, stages, options.path.master_stage, span, pixels_per_ms);
  for (const Bar& bar : bars_of(timeline, pixels_per_ms)) draw_bar(svg, bar, pixels_per_ms);
  draw_path(svg, options.path.actions, pixels_per_ms);
  return svg.str(options.standalone ? chart_style() : "");
}

}  // namespace trimtab::cli
