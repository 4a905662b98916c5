#pragma once

// The tune report as a page: self-contained (no script, no external resource), light or dark as the reader's system.
// Pure.

#include <string>

#include "report/data.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string report_html(const ReportData& report);

}  // namespace trimtab::cli
