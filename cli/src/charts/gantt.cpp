#include "charts/gantt.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

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

std::int32_t stages_of(const std::vector<TimelineEvent>& timeline) {
  std::int32_t stages = 0;
  for (const TimelineEvent& event : timeline) stages = std::max(stages, event.stage + 1);
  return stages;
}

std::string title_of(EventKind kind) {
  std::string name(to_string(kind));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

// ", stage 1: 2.0 ms to 3.5 ms (1.5 ms)"
std::string place_text(const TimelineEvent& event) {
  return ", stage " + std::to_string(event.stage) + ": " + format_ms(event.begin_ms) + " to " +
         format_ms(event.end_ms) + " (" + format_ms(event.end_ms - event.begin_ms) + ")";
}

std::string tooltip(const TimelineEvent& event) {
  std::string text = title_of(event.kind);
  if (event.microbatch >= 0) text += " of microbatch " + std::to_string(event.microbatch);
  return text + place_text(event);
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
                  "critical path" + place_text(stay));
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
    if (std::ranges::find(timeline, kind, &TimelineEvent::kind) == timeline.end()) continue;
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

using nlohmann::json;

json name_event(const char* what, std::int32_t process, std::int32_t thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

json complete_event(const tuner::TimelineEvent& event) {
  const std::string kind(to_string(event.kind));
  const bool numbered = event.microbatch >= 0;
  json record = {{"name", numbered ? kind + " " + std::to_string(event.microbatch) : kind},
                 {"cat", kind},
                 {"ph", "X"},
                 {"ts", event.begin_ms * 1000},
                 {"dur", (event.end_ms - event.begin_ms) * 1000},
                 {"pid", event.stage},
                 {"tid", is_computation(event.kind) ? 0 : 1}};
  if (numbered) record["args"] = {{"microbatch", event.microbatch}};
  return record;
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
  const std::int32_t stages = std::max(1, stages_of(timeline));
  const double height = kTop + stages * kRow + 34;
  Svg svg(kLeft + kPlot + kRight, height, options.title, summary(stages, end, options.path.master_stage));
  if (options.standalone) svg.rectangle(0, 0, kLeft + kPlot + kRight, height, "paper");
  draw_legend(svg, timeline, !options.path.actions.empty());
  draw_frame(svg, stages, options.path.master_stage, span, pixels_per_ms);
  for (const Bar& bar : bars_of(timeline, pixels_per_ms)) draw_bar(svg, bar, pixels_per_ms);
  draw_path(svg, options.path.actions, pixels_per_ms);
  return svg.str(options.standalone ? chart_style() : "");
}

// The colours are told apart with the usual colour vision deficiencies (after Okabe and Ito), in both schemes.
std::string_view chart_style() {
  return R"css(
:root { --ink:#1b2430; --soft:#5b6775; --rule:#d9dee4; --paper:#ffffff; --panel:#f5f7f9; --accent:#00658f;
  --forward:#0072b2; --backward:#d55e00; --recompute:#e6a000; --transfer:#7a8794; --sync:#8a5fb0; --optimizer:#009e73;
  --good:#00714f; --bad:#b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink:#e6ebf0; --soft:#9dabb9; --rule:#323c47; --paper:#12171d; --panel:#1a2129; --accent:#6cc4ec;
    --forward:#4aa8e0; --backward:#f08a45; --recompute:#f0c050; --transfer:#93a1af; --sync:#b995dc; --optimizer:#3fc79d;
    --good:#55d3a6; --bad:#ff8a80; } }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.label { fill:var(--ink); font-size:12px } .small { fill:var(--soft); font-size:11px }
.axis { stroke:var(--soft); stroke-width:1 } .grid { stroke:var(--rule); stroke-width:1 }
.lane { fill:var(--panel) } .paper { fill:var(--paper) } .inside { fill:var(--paper); font-size:10px }
.forward { fill:var(--forward) } .backward { fill:var(--backward) } .recompute { fill:var(--recompute) }
.transfer { fill:var(--transfer) } .gradient_sync { fill:var(--sync) } .optimizer { fill:var(--optimizer) }
.event { stroke:var(--paper); stroke-width:.5 }
.critical { fill:none; stroke:var(--ink); stroke-width:1.8 } .critical-hop { stroke:var(--ink); stroke-width:1.8 }
.master { font-weight:bold; fill:var(--ink) }
.mark-before { fill:none; stroke:var(--soft); stroke-width:1.5 } .mark-after { fill:var(--accent) }
.series { fill:none; stroke:var(--accent); stroke-width:2 } .series-other { fill:none; stroke:var(--backward); stroke-width:2; stroke-dasharray:3 3 }
.ideal { stroke:var(--soft); stroke-dasharray:4 4 }
.interval { stroke:var(--soft); stroke-width:1.5 } .point { fill:var(--accent) } .point-lost { fill:var(--soft) }
)css";
}

std::string trace_json(const std::vector<tuner::TimelineEvent>& timeline) {
  const std::int32_t stages = stages_of(timeline);
  json events = json::array();
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    events.push_back(name_event("process_name", stage, 0, "stage " + std::to_string(stage)));
    events.push_back(name_event("thread_name", stage, 0, "computation"));
    events.push_back(name_event("thread_name", stage, 1, "communication"));
  }
  for (const auto& event : timeline) events.push_back(complete_event(event));
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace trimtab::cli
