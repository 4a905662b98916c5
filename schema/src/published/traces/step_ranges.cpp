#include "published/traces/step_ranges.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "schema/step_number.hpp"

namespace trimtab::published {

namespace {

// "ProfilerStep#7", "step 7", "train_step", "iteration7", "Iter: 7", in any case.
constexpr std::string_view kNames[] = {"profilerstep", "step",      "trainstep",      "trainingstep",
                                       "iteration",    "iter",      "trainiteration", "trainingiteration",
                                       "trainiter",    "globalstep"};

struct Named {
  std::string word;  // letters alone, in lower case
  std::optional<std::int64_t> number;
};

// Letters, then perhaps a number; what is between them (blanks, '_', '#', ':', '=') does not count.
std::optional<Named> parts_of(std::string_view name) {
  const std::size_t digits = name.find_first_of("0123456789");
  Named named;
  for (const char c : name.substr(0, digits)) {
    if (c >= 'A' && c <= 'Z') {
      named.word += static_cast<char>(c - 'A' + 'a');
    } else if (c >= 'a' && c <= 'z') {
      named.word += c;
    } else if (std::string_view(" _-#:=[(").find(c) == std::string_view::npos) {
      return std::nullopt;
    }
  }
  if (std::ranges::find(kNames, named.word) == std::end(kNames)) return std::nullopt;
  if (digits == std::string_view::npos) return named;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", digits), name.size());
  named.number = parse_number<std::int64_t>(name.substr(digits, end - digits));
  const bool is_whole = name.find_first_not_of(" ])", end) == std::string_view::npos;
  if (!is_whole || !named.number || !is_step_number(*named.number)) return std::nullopt;
  return named;
}

}  // namespace

bool StepRanges::add(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns) {
  constexpr std::size_t kLongest = 64;
  if (name.size() > kLongest || end_ns <= begin_ns) return false;
  const std::optional<Named> named = parts_of(name);
  if (!named) return false;
  by_name_[named->word].push_back({named->number, begin_ns, end_ns});
  return true;
}

std::vector<TracedStep> StepRanges::steps() const {
  const auto weight = [](const std::vector<Range>& ranges) {
    std::int64_t longest = 0;
    for (const Range& one : ranges) longest = std::max(longest, one.end_ns - one.begin_ns);
    return std::pair(ranges.size(), longest);
  };
  const auto most = std::ranges::max_element(
      by_name_, [&](const auto& a, const auto& b) { return weight(a.second) < weight(b.second); });
  if (most == by_name_.end()) return {};
  std::vector<Range> ranges = most->second;
  std::ranges::stable_sort(ranges, {}, &Range::begin_ns);
  const bool numbered = std::ranges::all_of(ranges, [](const Range& one) { return one.number.has_value(); });
  std::vector<TracedStep> steps;
  for (const Range& one : ranges) {
    const auto counted = static_cast<std::int64_t>(steps.size());
    steps.push_back({numbered ? *one.number : counted, one.begin_ns, one.end_ns});
  }
  return steps;
}

}  // namespace trimtab::published
