#pragma once

// A page of metrics as an OTLP ExportMetricsServiceRequest in OTLP's JSON encoding. Pure.

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "net/otlp_exporter.hpp"

namespace trimtab::net {

// `page` is the daemon's own; `start` is when its counters began, both since the Unix epoch. Families without samples
// are left out, and the label `job` becomes trimtab.job: Prometheus overwrites an attribute `job` with service.name.
[[nodiscard]] std::string otlp_document(const OtlpResource& resource, std::string_view page, Nanoseconds start,
                                        Nanoseconds now);

// UCUM, by a name's suffix; empty where there is none. Counts have none: the unit "1" makes Prometheus rename gauges.
[[nodiscard]] std::string_view otlp_unit(std::string_view name);

}  // namespace trimtab::net
