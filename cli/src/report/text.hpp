#pragma once

// The tune report as a summary for the terminal. Pure.

#include <string>

#include "report/data.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string report_text(const ReportData& report);

}  // namespace trimtab::cli
