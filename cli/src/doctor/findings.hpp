#pragma once

// How doctor_agent_page and doctor_coordinator_page read what a daemon says of itself, and list what is wrong. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/daemons.hpp"

namespace trimtab::cli {

// Since the daemon's start, and between two looks: what does not grow any more is no failure of today.
struct Counter {
  double total = 0;
  double grown = 0;  // 0 where there was one look only
};

// A daemon's page and, where there is one, the one before it. Views of what the caller keeps.
class Pages {
 public:
  Pages(const std::vector<MetricSample>& now, const std::optional<EarlierPage>& earlier)
      : now_(now), earlier_(earlier) {}
  [[nodiscard]] const std::vector<MetricSample>& now() const { return now_; }
  // Over all labels, and of exactly these.
  [[nodiscard]] Counter counter(std::string_view name) const;
  [[nodiscard]] Counter counter(std::string_view name, std::string_view labels) const;
  [[nodiscard]] double grown(const MetricSample& sample) const;
  // Values of `label` where the metric is further from 0 than `most`: "n0, n1".
  [[nodiscard]] std::string where(std::string_view name, const std::string& label, double most = 0) const;
  // The same of a counter, where it also grows.
  [[nodiscard]] std::string where_grown(std::string_view name, const std::string& label, double most = 0) const;

 private:
  const std::vector<MetricSample>& now_;
  const std::optional<EarlierPage>& earlier_;
};

class Findings {
 public:
  explicit Findings(std::string daemon) : daemon_(std::move(daemon)) {}
  void add(bool wrong, const char* what, Health health, const std::string& found, const std::string& remedy);
  // Of a counter that stands still: what has been, which is no finding.
  void add_past(const Counter& counter, const char* what, const std::string& found);
  // `well` is said where nothing is wrong.
  [[nodiscard]] std::vector<Check> checks(const std::string& well) &&;

 private:
  std::string daemon_;
  std::vector<Check> wrong_;
  std::vector<Check> past_;
};

// Over all labels; 0 where the page does not have it.
[[nodiscard]] double sum_of(const std::vector<MetricSample>& page, std::string_view name);
// Of exactly these labels, as on the page.
[[nodiscard]] std::optional<double> value_of(const std::vector<MetricSample>& page, std::string_view name,
                                             std::string_view labels);
// What a label says; empty where it is not there.
[[nodiscard]] std::string label_of(const MetricSample& sample, const std::string& label);
[[nodiscard]] std::string counted(double value);
// Behind what a counter counts where it stands still.
[[nodiscard]] std::string since_start(const Counter& counter);

// Of posts of metrics, and of a late event loop, which both daemons tell alike.
void add_posts(const Pages& pages, Findings& findings);
void add_loop(double lag_seconds, Findings& findings);

}  // namespace trimtab::cli
