#include "arguments.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "schema/nearest.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

Result<Budget> parse_budget(std::string_view text) {
  if (text.ends_with("ev")) {
    TRIMTAB_TRY(const std::uint64_t evaluations, parse_count("--budget", text.substr(0, text.size() - 2)));
    if (evaluations == 0) return bad_input("--budget: needs at least 1 evaluation, but found '0ev'");
    return Budget{Nanoseconds(0), evaluations};
  }
  const Result<Nanoseconds> time = parse_duration(text);
  if (time.ok() && time->count() > 0) return Budget{*time, 0};
  return bad_input("--budget: expected a time such as 2s or a number of evaluations such as 100000ev, but found '" +
                   std::string(text) + "'");
}

Result<std::uint64_t> parse_count(const std::string& flag, std::string_view text) {
  if (const auto value = parse_number<std::uint64_t>(text)) return *value;
  return bad_input(flag + ": expected a whole number, but found '" + std::string(text) + "'");
}

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

Status check_choice(const std::string& flag, const std::string& value, const std::vector<std::string_view>& known) {
  if (std::ranges::find(known, value) != known.end()) return {};
  return bad_input(flag + ": expected one of '" + joined(known, "', '") + "', but found '" + value + "'" +
                   did_you_mean(value, {known.begin(), known.end()}));
}

}  // namespace trimtab::cli
