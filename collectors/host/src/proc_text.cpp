#include "proc_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "shown_text.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

namespace {

constexpr std::array<std::string_view, 19> kVectorExtensions = {
    "amx_bf16",    "amx_int8", "asimd",    "avx",     "avx2",     "avx512_bf16", "avx512_fp16",
    "avx512_vnni", "avx512bw", "avx512dq", "avx512f", "avx512vl", "avx_vnni",    "bf16",
    "fma",         "i8mm",     "sse4_2",   "sve",     "sve2"};

std::string join(const std::vector<std::string_view>& parts) {
  std::string text;
  for (const std::string_view part : parts) text += (text.empty() ? "" : " ") + std::string(part);
  return text;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trim(text);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view parse_line(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trim(line.substr(0, colon)) == key) return trim(line.substr(colon + 1));
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
  cpu.isa = join(relevant);
  return cpu;
}

Result<std::int64_t> parse_cpu_list(std::string_view text) {
  std::int64_t cpus = 0;
  for (const std::string_view part : split(trim(text), ',')) {
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
  text = trim(text);
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return std::string(text);
  std::size_t end = first + 1;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return std::string(text.substr(0, end));
}

Result<StatFields> parse_stat(std::string_view text) {
  // "pid (name) state ppid ... utime stime": the name ends at the last ')'.
  const std::size_t name_end = text.rfind(')');
  const auto fields = split(name_end == std::string_view::npos ? "" : trim(text.substr(name_end + 1)), ' ');
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
  const auto parts = split(trim(text), ' ');
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

}  // namespace trimtab::host
