#pragma once

// What the daemons say of themselves at /metrics, in Prometheus' text format (version 0.0.4). Pure.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::net {

struct Metric {
  std::string name;  // trimtab_…, in base units; that of a histogram's family, without what `part` says
  bool is_counter = false;
  std::string help;
  double value = 0;
  std::string labels;          // {a="b"} or empty
  const char* part = nullptr;  // of a histogram: "_bucket", "_sum" or "_count"
};

// Counts of values by size. The bounds are the upper ends of its buckets, in rising order, and outlive it; one more
// bucket takes what is larger.
class Histogram final {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  // What is no number is left out.
  void observe(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }

  // Its samples, which go behind others of the family. `labels` as in Metric.
  void append(std::vector<Metric>& into, const std::string& name, const std::string& help,
              const std::string& labels = "") const;

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

// Seconds: from a fast step to a slow one, from one commit to a disk that is in trouble. A factor of two to 2.5 apart.
inline constexpr double kSecondBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                           0.5,   1,      2.5,   5,    10,    25,   60};

// Metrics of one name must stand together.
[[nodiscard]] std::string render_metrics(const std::vector<Metric>& metrics);
// {name="value",...}, its values escaped.
[[nodiscard]] std::string labels(std::initializer_list<std::pair<const char*, std::string>> all);
// For a label's value: quotes, backslashes and newlines escaped.
[[nodiscard]] std::string label_value(const std::string& text);
// The shortest text that is read back as the same number.
[[nodiscard]] std::string metric_number(double value);

}  // namespace trimtab::net
