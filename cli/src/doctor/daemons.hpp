#pragma once

// What `trimtab doctor` says of daemons that run, from what they say of themselves at /metrics, and of the files that
// services read. Judgements over facts that come in as arguments; docs/operating.md says more of each. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "doctor/checks.hpp"
#include "net/certificates.hpp"

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

// `problem` is what reading it gave, empty = none.
[[nodiscard]] Check check_configuration_file(const std::string& path, const std::string& problem);
// Warns a month before its end.
[[nodiscard]] Check check_certificate(const std::string& path, const net::CertificateDescription& described,
                                      Nanoseconds now);

}  // namespace trimtab::cli
