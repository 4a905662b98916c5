#include "machine_text.hpp"

#include <array>
#include <charconv>

#include "proc_text.hpp"
#include "shown_text.hpp"
#include "text_fields.hpp"

namespace trimtab::host {

namespace {

constexpr std::array kModes{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"};
constexpr std::size_t kOldestModes = 4;  // that every kernel has

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
  text = trim(text);
  const std::size_t unit = text.find(' ');
  if (unit == std::string_view::npos || !text.substr(unit + 1).starts_with("Gb/sec")) return std::nullopt;
  double gigabits = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + unit, gigabits);
  if (failure != std::errc() || end != text.data() + unit || !(gigabits > 0) || gigabits > 1e6) return std::nullopt;
  return gigabits * 1e9 / 8;
}

}  // namespace trimtab::host
