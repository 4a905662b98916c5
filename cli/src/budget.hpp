#pragma once

// How much searching is allowed: "2s", "100000ev". Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::cli {

struct Budget {
  Nanoseconds time{0};            // 0 = no limit of time
  std::uint64_t evaluations = 0;  // 0 = no limit of evaluations
};

[[nodiscard]] Result<Budget> parse_budget(std::string_view text);

// "--seed 7": a whole number without sign. The error names the flag.
[[nodiscard]] Result<std::uint64_t> parse_count(const std::string& flag, std::string_view text);

}  // namespace trimtab::cli
