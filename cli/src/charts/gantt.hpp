#pragma once

// The timeline of one iteration as a drawing (a row per stage, computation above, communication below it), and as a
// trace. Pure.

#include <string>
#include <vector>

#include "tuner/cost_model.hpp"

namespace trimtab::cli {

struct GanttOptions {
  std::string title = "One iteration";
  double span_ms = 0;       // what the width stands for; 0 = the last event's end. Equal spans make drawings comparable
  bool standalone = false;  // a file of its own, with its style inside
  tuner::StepPath path = {};  // outlined, its master stage marked; empty: none
};

[[nodiscard]] std::string gantt_svg(const std::vector<tuner::TimelineEvent>& timeline, const GanttOptions& options);

// False for what runs beside computation.
[[nodiscard]] bool is_computation(tuner::EventKind kind);
[[nodiscard]] double end_of(const std::vector<tuner::TimelineEvent>& timeline);

// CSS of the drawing's classes, with both colour schemes; part of the report's page too.
[[nodiscard]] std::string_view chart_style();

// In the trace event format, which Perfetto and chrome://tracing open. Each stage is a process with two threads,
// computation and communication: events of one thread may not overlap.
[[nodiscard]] std::string trace_json(const std::vector<tuner::TimelineEvent>& timeline);

}  // namespace trimtab::cli
