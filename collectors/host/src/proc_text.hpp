#pragma once

// Parsers of what the kernel says in /proc, /sys and control groups. Pure functions; a missing line is an empty or zero
// value, except where said.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"

namespace trimtab::host {

// Fields of a text, which point into the argument: between single separators; an empty text has no parts.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
// Between runs of blanks; none of them is empty.
[[nodiscard]] std::vector<std::string_view> words(std::string_view text);

struct CpuDescription {
  std::string model;
  std::string isa;  // the vector extensions that arithmetic libraries choose kernels by, sorted
};
[[nodiscard]] CpuDescription parse_cpuinfo(std::string_view text);

// Bytes of a "MemTotal:  24052636 kB" line of /proc/meminfo or /proc/PID/status; nullopt when the line is missing.
[[nodiscard]] std::optional<Bytes> parse_kilobytes_line(std::string_view text, std::string_view key);
// What stands after "key:" on its line, trimmed; empty when missing.
[[nodiscard]] std::string_view parse_line(std::string_view text, std::string_view key);

// How many CPUs "0-3,8,10-11" names; fails on anything else.
[[nodiscard]] Result<std::int64_t> parse_cpu_list(std::string_view text);

// "6.1.0-18-amd64" -> "6.1"; the whole text when it has another form.
[[nodiscard]] std::string parse_kernel_release(std::string_view text);

struct StatFields {
  char state = '?';
  std::int64_t user_ticks = 0;
  std::int64_t system_ticks = 0;
  std::int64_t parent = 0;
  std::int64_t children_user_ticks = 0;  // of those that were waited for
  std::int64_t children_system_ticks = 0;
};
// /proc/PID/stat; the program's name in it may contain anything.
[[nodiscard]] Result<StatFields> parse_stat(std::string_view text);

// A line of /proc/PID/cgroup: controllers ("" = the v2 group) and path.
struct CgroupPath {
  std::vector<std::string> controllers;
  std::string path;
};
[[nodiscard]] std::vector<CgroupPath> parse_cgroup_paths(std::string_view text);

// memory.max and memory.limit_in_bytes; nullopt = no limit.
[[nodiscard]] std::optional<Bytes> parse_memory_limit(std::string_view text);
// "200000 100000" of cpu.max as CPUs; nullopt = no limit.
[[nodiscard]] std::optional<double> parse_cpu_max(std::string_view text);

[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

// Of the clock ticks that the kernel counts processor time in.
[[nodiscard]] Nanoseconds ticks_to_time(std::int64_t ticks);

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
