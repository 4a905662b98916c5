#pragma once

// The timeline of one iteration in the trace event format, which Perfetto and chrome://tracing open. Pure.

#include <string>
#include <vector>

#include "tuner/cost_model.hpp"

namespace trimtab::cli {

// Each stage is a process with two threads, computation and communication: events of one thread may not overlap.
[[nodiscard]] std::string trace_json(const std::vector<tuner::TimelineEvent>& timeline);

}  // namespace trimtab::cli
