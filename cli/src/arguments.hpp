#pragma once

// Words of a command line: numbers, budgets ("2s", "100000ev"), choices, and the known word that somebody probably
// meant. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/numbers.hpp"
#include "base/result.hpp"

namespace trimtab::cli {

struct Budget {
  Nanoseconds time{0};            // 0 = no limit of time
  std::uint64_t evaluations = 0;  // 0 = no limit of evaluations
};

[[nodiscard]] Result<Budget> parse_budget(std::string_view text);

// "--seed 7": a whole number without sign. The error names the flag.
[[nodiscard]] Result<std::uint64_t> parse_count(const std::string& flag, std::string_view text);

// The nearest candidate, or nothing when even that one is too far away to be a slip of the hand.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);
// "; did you mean 'search'?", or "" when nothing is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Refuses a value that is not among `known`, listing them.
[[nodiscard]] Status check_choice(const std::string& flag, const std::string& value,
                                  const std::vector<std::string_view>& known);

}  // namespace trimtab::cli
