#pragma once

// What `trimtab doctor` says of daemons that run, from what they say of themselves at /metrics. Judgements over facts
// that come in as arguments; docs/operating.md says more of each. Pure.

#include "doctor/checks.hpp"

namespace trimtab::cli {

struct MetricSample {
  std::string name;
  std::string labels;  // as on the page, without the braces
  double value = 0;
};
// Of a page in Prometheus' text format; a line that makes no sense is left out.
[[nodiscard]] std::vector<MetricSample> parse_metric_page(std::string_view text);

struct EarlierPage {
  std::vector<MetricSample> page;
  Nanoseconds ago{0};
};
// One check for what is wrong each; a good one where nothing is, and good ones for failures that have stopped. What an
// agent and its collectors take shows between two pages of one daemon, and so does whether a counter still grows: where
// there is one page, none does.
[[nodiscard]] std::vector<Check> agent_checks(const std::vector<MetricSample>& page,
                                              const std::optional<EarlierPage>& earlier = std::nullopt);
[[nodiscard]] std::vector<Check> coordinator_checks(const std::vector<MetricSample>& page,
                                                    const std::optional<EarlierPage>& earlier = std::nullopt);

// Below: how daemon_pages.cpp reads what a daemon says of itself, and lists what is wrong.

// Since the daemon's start, and between two looks: what does not grow any more is no failure of today.
struct Counter {
  double total = 0;
  double grown = 0;  // 0 where there was one look only
};

// A daemon's page and, where there is one, the one before it. Views of what the caller keeps.
struct Pages {
  const std::vector<MetricSample>& now;
  const std::optional<EarlierPage>& earlier;

  // Over all labels, and of exactly these.
  [[nodiscard]] Counter counter(std::string_view name) const;
  [[nodiscard]] Counter counter(std::string_view name, std::string_view labels) const;
  [[nodiscard]] double grown(const MetricSample& sample) const;
  // Values of `label` where the metric is further from 0 than `most`, and also grows: "n0, n1".
  [[nodiscard]] std::string where(std::string_view name, const std::string& label, double most = 0,
                                  bool only_growing = false) const;
};

class Findings {
 public:
  explicit Findings(std::string daemon) : daemon_(std::move(daemon)) {}
  void add(bool wrong, const char* what, Health health, const std::string& found, const std::string& remedy);
  // Of a counter that grows; `found` follows its total.
  void add_growing(const Counter& counter, const char* what, Health health, const std::string& found,
                   const std::string& remedy);
  // The same; where it stands still it is told what has been, which is no finding.
  void add_growing_or_past(const Counter& counter, const char* what, Health health, const std::string& found,
                           const std::string& remedy);
  // Of a counter that has ever counted.
  void add_ever(const Counter& counter, const char* what, const std::string& found, const std::string& remedy);
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
