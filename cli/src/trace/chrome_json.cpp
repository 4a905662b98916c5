#include "trace/chrome_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "charts/gantt.hpp"

namespace trimtab::cli {

namespace {

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

std::string trace_json(const std::vector<tuner::TimelineEvent>& timeline) {
  std::int32_t stages = 0;
  for (const auto& event : timeline) stages = std::max(stages, event.stage + 1);
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
