#include "proc_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace trimtab::host {

namespace {

constexpr std::array<std::string_view, 19> kVectorExtensions = {
    "amx_bf16",    "amx_int8", "asimd",    "avx",     "avx2",     "avx512_bf16", "avx512_fp16",
    "avx512_vnni", "avx512bw", "avx512dq", "avx512f", "avx512vl", "avx_vnni",    "bf16",
    "fma",         "i8mm",     "sse4_2",   "sve",     "sve2"};

constexpr std::array kModes{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"};
constexpr std::size_t kOldestModes = 4;  // that every kernel has

// What stands in a system's file, for messages. A process chooses the name that /proc/PID/stat has of it, and messages
// go to logs: what is no printable ASCII becomes '?', and of much only the beginning is shown.
std::string shown_text(std::string_view text) {
  constexpr std::size_t kMostShownBytes = 200;
  std::string shown(text.substr(0, kMostShownBytes));
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  std::ranges::replace_if(
      shown, [&](char c) { return !printable(c); }, '?');
  return shown;
}

std::optional<std::int64_t> total_of(std::string_view line) {
  constexpr std::string_view kTotal = "total=";
  const std::size_t at = line.find(kTotal);
  if (at == std::string_view::npos) return std::nullopt;
  const auto total = parse_integer(line.substr(at + kTotal.size()));
  constexpr std::int64_t kMost = std::int64_t{1} << 52;  // microseconds that are nanoseconds in 63 bits
  return total && *total >= 0 && *total < kMost ? total : std::nullopt;
}

Result<std::vector<std::pair<const char*, std::int64_t>>> modes_of(std::string_view line) {
  const std::vector<std::string_view> fields = words(line.substr(4));
  std::vector<std::pair<const char*, std::int64_t>> modes;
  for (std::size_t mode = 0; mode < kModes.size() && mode < fields.size(); ++mode) {
    const auto ticks = parse_integer(fields[mode]);
    if (!ticks || *ticks < 0) break;
    modes.emplace_back(kModes[mode], *ticks);
  }
  if (modes.size() < kOldestModes) {
    return bad_input("the 'cpu' line of /proc/stat begins with 4 or more counts, but this one is '" + shown_text(line) +
                     "'");
  }
  return modes;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> parts = split(text, ' ');
  std::erase_if(parts, [](std::string_view part) { return trimmed(part).empty(); });
  return parts;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view parse_line(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key)
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

std::optional<Bytes> parse_kilobytes_line(std::string_view text, std::string_view key) {
  const std::string_view value = parse_line(text, key);
  const auto kilobytes = parse_integer(value.substr(0, value.find(' ')));
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (!kilobytes || *kilobytes < 0 || *kilobytes > kMost) return std::nullopt;
  return *kilobytes * 1024;
}

CpuDescription parse_cpuinfo(std::string_view text) {
  CpuDescription cpu;
  cpu.model = parse_line(text, "model name");
  std::string_view flags = parse_line(text, "flags");
  if (cpu.model.empty()) {  // ARM names its parts by numbers
    const std::string_view part = parse_line(text, "CPU part");
    cpu.model =
        part.empty() ? "unknown" : "arm " + std::string(parse_line(text, "CPU implementer")) + " " + std::string(part);
  }
  if (flags.empty()) flags = parse_line(text, "Features");
  std::vector<std::string_view> relevant;
  for (const std::string_view flag : split(flags, ' ')) {
    if (std::ranges::find(kVectorExtensions, flag) != kVectorExtensions.end()) relevant.push_back(flag);
  }
  std::ranges::sort(relevant);
  cpu.isa = joined(relevant, " ");
  return cpu;
}

Result<std::int64_t> parse_cpu_list(std::string_view text) {
  std::int64_t cpus = 0;
  for (const std::string_view part : split(trimmed(text), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > 1'000'000) {
      return bad_input("a CPU list looks like '0-3,8', but this one is '" + shown_text(text) + "'");
    }
    cpus += *last - *first + 1;
  }
  if (cpus == 0) return bad_input("a CPU list names at least one CPU, but this one is empty");
  return cpus;
}

std::string parse_kernel_release(std::string_view text) {
  text = trimmed(text);
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return std::string(text);
  std::size_t end = first + 1;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return std::string(text.substr(0, end));
}

Result<StatFields> parse_stat(std::string_view text) {
  // "pid (name) state ppid ... utime stime": the name ends at the last ')'.
  const std::size_t name_end = text.rfind(')');
  const auto fields = split(name_end == std::string_view::npos ? "" : trimmed(text.substr(name_end + 1)), ' ');
  constexpr std::size_t kUserTicks = 11;  // field 14 of the line; `state` is field 3
  if (fields.size() <= kUserTicks + 1 || fields[0].size() != 1) {
    return bad_input("/proc/PID/stat has 52 fields, but this one is '" + shown_text(text) + "'");
  }
  const auto user = parse_integer(fields[kUserTicks]);
  const auto system = parse_integer(fields[kUserTicks + 1]);
  if (!user || !system) return bad_input("/proc/PID/stat has no CPU times: '" + shown_text(text) + "'");
  StatFields stat{fields[0][0], *user, *system};
  stat.parent = parse_integer(fields[1]).value_or(0);
  if (fields.size() > kUserTicks + 3) {
    stat.children_user_ticks = parse_integer(fields[kUserTicks + 2]).value_or(0);
    stat.children_system_ticks = parse_integer(fields[kUserTicks + 3]).value_or(0);
  }
  return stat;
}

std::vector<CgroupPath> parse_cgroup_paths(std::string_view text) {
  std::vector<CgroupPath> paths;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    CgroupPath path;
    for (const std::string_view controller : split(line.substr(first + 1, second - first - 1), ',')) {
      path.controllers.emplace_back(controller);
    }
    path.path = line.substr(second + 1);
    paths.push_back(std::move(path));
  }
  return paths;
}

std::optional<Bytes> parse_memory_limit(std::string_view text) {
  const auto limit = parse_integer(text);                     // "max" is none
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;  // v1 says 2^63 less a page
  if (!limit || *limit < 0 || *limit >= kUnlimited) return std::nullopt;
  return *limit;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto parts = split(trimmed(text), ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_integer(parts[0]);
  const auto period = parse_integer(parts[1]);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

Nanoseconds ticks_to_time(std::int64_t ticks) {
  const long per_second = sysconf(_SC_CLK_TCK);
  return std::chrono::nanoseconds(std::chrono::seconds(1)) / (per_second > 0 ? per_second : 100) * ticks;
}

Result<MachineTicks> parse_machine_stat(std::string_view text) {
  MachineTicks ticks;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("cpu ")) continue;
    TRIMTAB_TRY(ticks.modes, modes_of(line));
    break;
  }
  if (ticks.modes.empty()) return bad_input("/proc/stat has no 'cpu' line");
  ticks.context_switches = parse_keyed_integer(text, "ctxt").value_or(0);
  ticks.running = parse_keyed_integer(text, "procs_running").value_or(0);
  ticks.blocked = parse_keyed_integer(text, "procs_blocked").value_or(0);
  return ticks;
}

Result<Pressure> parse_pressure(std::string_view text) {
  std::optional<std::int64_t> some;
  std::optional<std::int64_t> full;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("some ")) some = total_of(line);
    if (line.starts_with("full ")) full = total_of(line);
  }
  if (!some) {
    return bad_input("/proc/pressure says 'some ... total=N', but found '" + shown_text(text) + "'");
  }
  Pressure pressure;
  pressure.some = std::chrono::microseconds(*some);
  if (full) pressure.full = std::chrono::microseconds(*full);
  return pressure;
}

std::optional<std::int64_t> parse_keyed_integer(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return parse_integer(line.substr(key.size()));
    }
  }
  return std::nullopt;
}

std::optional<double> parse_infiniband_rate(std::string_view text) {
  text = trimmed(text);
  const std::size_t unit = text.find(' ');
  if (unit == std::string_view::npos || !text.substr(unit + 1).starts_with("Gb/sec")) return std::nullopt;
  double gigabits = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + unit, gigabits);
  if (failure != std::errc() || end != text.data() + unit || !(gigabits > 0) || gigabits > 1e6) return std::nullopt;
  return gigabits * 1e9 / 8;
}

}  // namespace trimtab::host
