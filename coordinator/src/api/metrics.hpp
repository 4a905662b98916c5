#pragma once

// The daemon's own metrics in Prometheus' text format.

#include <string>

#include "jobs/job_table.hpp"
#include "services.hpp"

namespace trimtab::coordinator {

[[nodiscard]] std::string metrics_text(const Services& services, const JobTable& jobs);

}  // namespace trimtab::coordinator
