#pragma once

// Words that the messages of searches share. Pure.

#include <set>
#include <string>

namespace trimtab::tuner {

// "a; b; ...", the first eight of them.
[[nodiscard]] std::string first_names(const std::set<std::string>& names);
// "1.25 %"
[[nodiscard]] std::string percent_text(double share);

}  // namespace trimtab::tuner
