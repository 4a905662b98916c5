#pragma once

// One number that a source read, in a base unit (seconds, bytes, hertz, watts, degrees Celsius, a ratio of 1), named as
// Prometheus names it. Plain values. All names stand in docs/metrics.md.

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trimtab::host {

// In static storage.
struct Measure {
  const char* name;
  const char* help;
  bool is_counter = false;
};

struct Sample {
  const Measure* measure = nullptr;
  std::vector<std::pair<const char*, std::string>> labels;  // of bounded sets of values
  double value = 0;
};
using Samples = std::vector<Sample>;

// Every measure there is.
[[nodiscard]] std::span<const Measure* const> measures();

}  // namespace trimtab::host
