#include "net/metric_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace trimtab::net {

namespace {

const char* type_of(const Metric& metric) {
  if (metric.part != nullptr) return "histogram";
  return metric.is_counter ? "counter" : "gauge";
}

std::string with_bound(const std::string& labels, const std::string& bound) {
  const std::string last = "le=\"" + bound + "\"}";
  return labels.empty() ? "{" + last : labels.substr(0, labels.size() - 1) + "," + last;
}

}  // namespace

void Histogram::observe(double value) {
  if (!std::isfinite(value)) return;
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

void Histogram::append(std::vector<Metric>& into, const std::string& name, const std::string& help,
                       const std::string& labels) const {
  const auto add = [&](const char* part, double value, const std::string& of) {
    into.push_back({name, false, help, value, of, part});
  };
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    add("_bucket", static_cast<double>(below), with_bound(labels, metric_number(bounds_[i])));
  }
  add("_bucket", static_cast<double>(count_), with_bound(labels, "+Inf"));
  add("_sum", sum_, labels);
  add("_count", static_cast<double>(count_), labels);
}

std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char character : text) {
    if (character == '"' || character == '\\') escaped.push_back('\\');
    escaped += character == '\n' ? std::string("\\n") : std::string(1, character);
  }
  return escaped;
}

std::string labels(std::initializer_list<std::pair<const char*, std::string>> all) {
  std::string text;
  for (const auto& [name, value] : all) {
    text += (text.empty() ? "{" : ",") + std::string(name) + "=\"" + label_value(value) + "\"";
  }
  return text + "}";
}

std::string metric_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const bool whole = value == std::trunc(value) && std::abs(value) < 1e15;
  char* const end = text.data() + text.size();
  const auto written =
      whole ? std::to_chars(text.data(), end, static_cast<long long>(value)) : std::to_chars(text.data(), end, value);
  return {text.data(), written.ptr};
}

std::string render_metrics(const std::vector<Metric>& metrics) {
  std::string text;
  std::string last;
  for (const auto& metric : metrics) {
    if (metric.name != last) {
      text += "# HELP " + metric.name + " " + metric.help + "\n# TYPE " + metric.name + " " + type_of(metric) + "\n";
      last = metric.name;
    }
    text += metric.name + (metric.part == nullptr ? "" : metric.part) + metric.labels + " " +
            metric_number(metric.value) + "\n";
  }
  return text;
}

}  // namespace trimtab::net
