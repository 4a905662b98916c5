#pragma once

// Parsers of what the kernel says of the whole machine. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::host {

// /proc/stat, all CPUs together.
struct MachineTicks {
  std::vector<std::pair<const char*, std::int64_t>> modes;  // "user" ... "steal", in clock ticks
  std::int64_t context_switches = 0;
  std::int64_t running = 0;
  std::int64_t blocked = 0;
};
[[nodiscard]] Result<MachineTicks> parse_machine_stat(std::string_view text);

// /proc/pressure/RESOURCE: how long some, and how long all, tasks have waited since the machine started.
struct Pressure {
  Nanoseconds some{0};
  std::optional<Nanoseconds> full;  // of the CPU, only newer kernels say it
};
[[nodiscard]] Result<Pressure> parse_pressure(std::string_view text);

// The number after `key` in "key 123" lines: cpu.stat and its like.
[[nodiscard]] std::optional<std::int64_t> parse_keyed_integer(std::string_view text, std::string_view key);

// "400 Gb/sec (4X NDR)" as bytes per second.
[[nodiscard]] std::optional<double> parse_infiniband_rate(std::string_view text);

}  // namespace trimtab::host
