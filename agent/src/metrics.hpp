#pragma once

// What the agent says of itself at /metrics, in the Prometheus text format. Pure.

#include <cstdint>
#include <string>
#include <vector>

namespace trimtab::agent {

struct Metric {
  std::string name;  // trimtab_agent_...
  bool is_counter = false;
  std::string help;
  double value = 0;
  std::string labels;  // {a="b"} or empty
};

// Metrics of one name must stand together.
[[nodiscard]] std::string render_metrics(const std::vector<Metric>& metrics);
// For a label's value: quotes, backslashes and newlines escaped.
[[nodiscard]] std::string label_value(const std::string& text);

}  // namespace trimtab::agent
