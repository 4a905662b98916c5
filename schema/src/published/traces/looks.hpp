#pragma once

// What a file that is no trace looks like, in words, for whoever gave the wrong one. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "published/traces/chrome_events.hpp"

namespace trimtab::published {

inline constexpr std::string_view kWantedTraces =
    "expected a trace of PyTorch Profiler (profiler.export_chrome_trace(), plain or .gz) or an export of Nsight "
    "Systems "
    "(nsys export --type sqlite)";

// Of JSON without a profile.
[[nodiscard]] std::string look_of_json(const ChromeTrace& trace, const std::vector<std::string>& categories);

}  // namespace trimtab::published
