#include "published/traces/looks.hpp"

#include <algorithm>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

bool has(const ChromeTrace& trace, std::string_view member) {
  return std::ranges::find(trace.members, member) != trace.members.end();
}

}  // namespace

std::string look_of_json(const ChromeTrace& trace, const std::vector<std::string>& categories) {
  if (has(trace, "nodes") && has(trace, "schema")) {
    return "an execution trace of PyTorch (Chakra): operators and their order, and no times; give the trace of "
           "torch.profiler.profile() that was recorded beside it (export_chrome_trace()), which has them";
  }
  if (trace.has_events && trace.events == 0) return "a chrome trace without events; was the profiler ever in a step?";
  if (trace.has_events) {
    return "a chrome trace of another program: none of its " + std::to_string(trace.events) +
           " events is an operator, a step or a kernel of PyTorch Profiler" +
           (categories.empty() ? "" : " (categories: " + joined(categories, ", ", quoted_text) + ")");
  }
  if (trace.members.empty()) return "JSON that is no object with \"traceEvents\"";
  return "another JSON document, with " + joined(trace.members, ", ", quoted_text);
}

}  // namespace trimtab::published
