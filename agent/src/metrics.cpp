#include "metrics.hpp"

#include <fmt/format.h>

namespace trimtab::agent {

std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char character : text) {
    if (character == '"' || character == '\\') escaped.push_back('\\');
    escaped += character == '\n' ? std::string("\\n") : std::string(1, character);
  }
  return escaped;
}

std::string render_metrics(const std::vector<Metric>& metrics) {
  std::string text;
  std::string last;
  for (const auto& metric : metrics) {
    if (metric.name != last) {
      text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", metric.name, metric.help, metric.name,
                          metric.is_counter ? "counter" : "gauge");
      last = metric.name;
    }
    text += fmt::format("{}{} {}\n", metric.name, metric.labels, metric.value);
  }
  return text;
}

}  // namespace trimtab::agent
