#include "plan/recompute_flags.hpp"

namespace trimtab::tuner {

void set_flags(const std::vector<Range>& ranges, const Range& inside, RecomputeFlags& flags) {
  std::fill(flags.begin() + inside.begin, flags.begin() + inside.end, std::uint8_t{0});
  for (const Range& range : ranges) {
    std::fill(flags.begin() + range.begin, flags.begin() + range.end, std::uint8_t{1});
  }
}

std::vector<Range> ranges_of(const RecomputeFlags& flags, const Range& inside) {
  std::vector<Range> ranges;
  for (std::int32_t i = inside.begin; i < inside.end; ++i) {
    if (flags[i] == 0) continue;
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
  return ranges;
}

}  // namespace trimtab::tuner
