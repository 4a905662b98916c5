#pragma once

// What tuning has cost a job, in words. Pure.

#include <string>

#include "schema/api/job.hpp"

namespace trimtab::cli {

// "3.2 s, 0.85 % of the time that the job takes (2 % are allowed)"; shares are fractions, and 0 allows any.
[[nodiscard]] std::string overhead_text(const api::Overhead& overhead);

}  // namespace trimtab::cli
