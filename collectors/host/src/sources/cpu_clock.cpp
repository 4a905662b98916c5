#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "proc_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

// Asking a CPU for its clock may wake it: a few, spread evenly, say enough.
constexpr std::size_t kSampledCpus = 16;
constexpr const char* kCpus = "sys/devices/system/cpu/";

bool is_cpu(const std::string& name) {
  return name.starts_with("cpu") && parse_integer(name.substr(3)).value_or(-1) >= 0;
}

class CpuClockSource final : public Source {
 public:
  explicit CpuClockSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "cpu_clock"; }

  [[nodiscard]] Result<Samples> read() override {
    std::vector<std::string> cpus = list_system_directory(root_, kCpus);
    std::erase_if(cpus, [](const std::string& name) { return !is_cpu(name); });
    std::ranges::sort(cpus, {}, [](const std::string& name) { return *parse_integer(name.substr(3)); });
    Samples samples;
    add_clocks(cpus, samples);
    add_throttles(cpus, samples);
    return samples;
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& cpu, const char* file) const {
    const auto text = read_system_file(root_, kCpus + cpu + "/" + file);
    return text.ok() ? parse_integer(*text) : std::nullopt;
  }

  void add_clocks(const std::vector<std::string>& cpus, Samples& samples) const {
    const std::size_t step = std::max<std::size_t>(1, (cpus.size() + kSampledCpus - 1) / kSampledCpus);
    std::vector<double> hertz;
    for (std::size_t cpu = 0; cpu < cpus.size(); cpu += step) {
      const auto kilohertz = number(cpus[cpu], "cpufreq/scaling_cur_freq");
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
  void add_throttles(const std::vector<std::string>& cpus, Samples& samples) const {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> cores;
    std::map<std::int64_t, std::int64_t> packages;
    for (const std::string& cpu : cpus) {
      const auto core = number(cpu, "thermal_throttle/core_throttle_count");
      const auto package = number(cpu, "thermal_throttle/package_throttle_count");
      if (!core && !package) continue;
      const std::int64_t package_id = number(cpu, "topology/physical_package_id").value_or(0);
      const std::int64_t core_id = number(cpu, "topology/core_id").value_or(*parse_integer(cpu.substr(3)));
      if (core) cores[{package_id, core_id}] = *core;
      if (package) packages[package_id] = *package;
    }
    std::int64_t of_cores = 0;
    std::int64_t of_packages = 0;
    for (const auto& [id, count] : cores) of_cores += count;
    for (const auto& [id, count] : packages) of_packages += count;
    if (!cores.empty()) samples.push_back({&kCpuThrottles, {{"scope", "core"}}, static_cast<double>(of_cores)});
    if (!packages.empty())
      samples.push_back({&kCpuThrottles, {{"scope", "package"}}, static_cast<double>(of_packages)});
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> cpu_clock_source(const std::string& root) {
  return std::make_unique<CpuClockSource>(root);
}

}  // namespace trimtab::host
