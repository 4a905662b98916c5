#include "nearest.hpp"

#include <algorithm>

#include "schema/nearest.hpp"

namespace trimtab::cli {

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool completes = word.size() >= 3 && candidate.starts_with(word);
    const std::size_t distance = completes ? 1 : edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const auto candidate = nearest(word, candidates);
  return candidate ? "; did you mean '" + *candidate + "'?" : "";
}

}  // namespace trimtab::cli
