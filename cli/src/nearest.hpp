#pragma once

// The known word that somebody probably meant. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::cli {

// The nearest candidate, or nothing when even that one is too far away to be a slip of the hand.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'search'?", or "" when nothing is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trimtab::cli
