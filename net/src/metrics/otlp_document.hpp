#pragma once

// A page of metrics as an OTLP ExportMetricsServiceRequest in OTLP's JSON encoding. Pure.

#include <string_view>

#include "net/otlp_exporter.hpp"

namespace trimtab::net {

// What render_metrics() and its like have written, read again: the one page of metrics is the source of all that is
// told of them. For the daemon's own pages, not for foreign ones. Pure.
struct PageSample {
  std::string_view part;  // of a histogram: "_bucket", "_sum", "_count"; else empty
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

struct PageFamily {
  std::string_view name;
  std::string_view help;
  std::string_view type;  // counter, gauge or histogram
  std::vector<PageSample> samples;
};

// In the page's order; views into `page`. REQUIRES: each family has its HELP, then its TYPE, then its samples.
[[nodiscard]] std::vector<PageFamily> read_metric_page(std::string_view page);
// "+Inf", "NaN", "0.25". REQUIRES: metric_number() wrote it.
[[nodiscard]] double read_metric_number(std::string_view text);

// `page` is the daemon's own; `start` is when its counters began, both since the Unix epoch. Families without samples
// are left out, and the label `job` becomes trimtab.job: Prometheus overwrites an attribute `job` with service.name.
[[nodiscard]] std::string otlp_document(const OtlpResource& resource, std::string_view page, Nanoseconds start,
                                        Nanoseconds now);

// UCUM, by a name's suffix; empty where there is none. Counts have none: the unit "1" makes Prometheus rename gauges.
[[nodiscard]] std::string_view otlp_unit(std::string_view name);

}  // namespace trimtab::net
