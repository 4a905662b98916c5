#pragma once

// What tuning has cost a job, in words. Pure.

#include <string>

namespace trimtab::cli {

// "3.2 s, 0.85 % of the time that the job takes (2 % are allowed)"; shares are fractions, and 0 allows any.
[[nodiscard]] std::string overhead_text(double ms, double share, double allowed_share);

}  // namespace trimtab::cli
