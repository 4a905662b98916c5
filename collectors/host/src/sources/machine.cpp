#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "proc_text.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

// Asking a CPU for its clock may wake it: a few, spread evenly, say enough.
constexpr std::size_t kSampledCpus = 16;
const std::string kCpus = "sys/devices/system/cpu/";

constexpr std::array<std::pair<const char*, const Measure*>, 6> kMemoryLines{{{"MemTotal", &kMemoryTotal},
                                                                              {"MemAvailable", &kMemoryAvailable},
                                                                              {"Cached", &kMemoryCached},
                                                                              {"Shmem", &kMemoryShared},
                                                                              {"SwapTotal", &kSwapTotal},
                                                                              {"SwapFree", &kSwapFree}}};

std::vector<std::int64_t> cpu_numbers(const std::string& root) {
  std::vector<std::int64_t> cpus;
  for (const std::string& name : list_system_directory(root, kCpus)) {
    const auto number = name.starts_with("cpu") ? parse_integer(name.substr(3)) : std::nullopt;
    if (number && *number >= 0) cpus.push_back(*number);
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::optional<std::int64_t> of_cpu(const std::string& root, std::int64_t cpu, const char* file) {
  return system_integer(root, kCpus + "cpu" + std::to_string(cpu) + "/" + file);
}

void add_clocks(const std::string& root, const std::vector<std::int64_t>& cpus, Samples& samples) {
  const std::size_t step = std::max<std::size_t>(1, (cpus.size() + kSampledCpus - 1) / kSampledCpus);
  std::vector<double> hertz;
  for (std::size_t place = 0; place < cpus.size(); place += step) {
    const auto kilohertz = of_cpu(root, cpus[place], "cpufreq/scaling_cur_freq");
    if (kilohertz && *kilohertz > 0) hertz.push_back(static_cast<double>(*kilohertz) * 1000);
  }
  if (hertz.empty()) return;
  double sum = 0;
  for (const double one : hertz) sum += one;
  const auto [least, most] = std::ranges::minmax(hertz);
  samples.push_back({&kCpuClock, {{"statistic", "min"}}, least});
  samples.push_back({&kCpuClock, {{"statistic", "mean"}}, sum / static_cast<double>(hertz.size())});
  samples.push_back({&kCpuClock, {{"statistic", "max"}}, most});
}

// Threads of a core, and cores of a package, repeat one count.
void add_throttles(const std::string& root, const std::vector<std::int64_t>& cpus, Samples& samples) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> cores;
  std::map<std::int64_t, std::int64_t> packages;
  for (const std::int64_t cpu : cpus) {
    const auto core = of_cpu(root, cpu, "thermal_throttle/core_throttle_count");
    const auto package = of_cpu(root, cpu, "thermal_throttle/package_throttle_count");
    if (!core && !package) continue;
    const std::int64_t package_id = of_cpu(root, cpu, "topology/physical_package_id").value_or(0);
    const std::int64_t core_id = of_cpu(root, cpu, "topology/core_id").value_or(cpu);
    if (core) cores[{package_id, core_id}] = *core;
    if (package) packages[package_id] = *package;
  }
  const auto add = [&](const char* scope, const auto& counts) {
    if (counts.empty()) return;
    std::int64_t sum = 0;
    for (const auto& [id, count] : counts) sum += count;
    samples.push_back({&kCpuThrottles, {{"scope", scope}}, static_cast<double>(sum)});
  };
  add("core", cores);
  add("package", packages);
}

}  // namespace

Result<Samples> read_cpu(const std::string& root) {
  TRIMTAB_TRY(const std::string text, read_system_file(root, "proc/stat"));
  TRIMTAB_TRY(const MachineTicks ticks, parse_machine_stat(text));
  const long per_second = ::sysconf(_SC_CLK_TCK);
  const double second = per_second > 0 ? static_cast<double>(per_second) : 100.0;
  Samples samples;
  for (const auto& [mode, count] : ticks.modes) {
    samples.push_back({&kCpuSeconds, {{"mode", mode}}, static_cast<double>(count) / second});
  }
  samples.push_back({&kContextSwitches, {}, static_cast<double>(ticks.context_switches)});
  samples.push_back({&kProcessesRunning, {}, static_cast<double>(ticks.running)});
  samples.push_back({&kProcessesBlocked, {}, static_cast<double>(ticks.blocked)});
  return samples;
}

Result<Samples> read_cpu_clock(const std::string& root) {
  const std::vector<std::int64_t> cpus = cpu_numbers(root);
  Samples samples;
  add_clocks(root, cpus, samples);
  add_throttles(root, cpus, samples);
  return samples;
}

Result<Samples> read_memory(const std::string& root) {
  TRIMTAB_TRY(const std::string text, read_system_file(root, "proc/meminfo"));
  Samples samples;
  for (const auto& [line, measure] : kMemoryLines) {
    const auto bytes = parse_kilobytes_line(text, line);
    if (bytes) samples.push_back({measure, {}, static_cast<double>(*bytes)});
  }
  if (samples.empty()) return bad_input("/proc/meminfo has lines 'MemTotal: N kB', but this one has none of them");
  return samples;
}

// A kernel without pressure accounting has no such files, or refuses to open them.
Result<Samples> read_pressure(const std::string& root) {
  Samples samples;
  for (const char* resource : {"cpu", "memory", "io"}) {
    const auto text = read_system_file(root, std::string("proc/pressure/") + resource);
    if (!text.ok()) continue;
    TRIMTAB_TRY(const Pressure pressure, parse_pressure(*text));
    const auto add = [&](const char* share, Nanoseconds time) {
      samples.push_back(
          {&kPressure, {{"resource", resource}, {"share", share}}, std::chrono::duration<double>(time).count()});
    };
    add("some", pressure.some);
    if (pressure.full) add("full", *pressure.full);
  }
  return samples;
}

}  // namespace trimtab::host
