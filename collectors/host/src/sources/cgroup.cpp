#include <algorithm>
#include <optional>

#include "cgroup_limits.hpp"
#include "machine_text.hpp"
#include "proc_text.hpp"
#include "sources/measures.hpp"
#include "sources/sources.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

struct Usage {
  std::optional<double> memory_bytes;
  std::optional<double> cpu_seconds;
  std::optional<double> throttled_seconds;
};

std::optional<double> scaled(const std::optional<std::int64_t>& value, double unit) {
  return value ? std::optional(static_cast<double>(*value) * unit) : std::nullopt;
}

// The group that this process is in; inside a container its files may stand at the mount's root.
class CgroupSource final : public Source {
 public:
  explicit CgroupSource(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string_view name() const override { return "cgroup"; }

  [[nodiscard]] Result<Samples> read() override {
    TRIMTAB_TRY(const std::string text, read_system_file(root_, "proc/self/cgroup"));
    TRIMTAB_TRY(const CgroupLimits limits, cgroup_limits_of(root_, "self"));
    Usage usage;
    for (const CgroupPath& group : parse_cgroup_paths(text)) {
      if (group.controllers.empty()) add_v2(group.path, usage);
      for (const std::string& controller : group.controllers) add_v1(controller, group.path, usage);
    }
    Samples samples;
    add(kCgroupMemory, usage.memory_bytes, samples);
    add(kCgroupMemoryLimit, scaled(limits.memory_bytes, 1), samples);
    add(kCgroupCpuLimit, limits.cpus, samples);
    add(kCgroupCpu, usage.cpu_seconds, samples);
    add(kCgroupThrottled, usage.throttled_seconds, samples);
    return samples;
  }

 private:
  static void add(const Measure& measure, const std::optional<double>& value, Samples& samples) {
    if (value) samples.push_back({&measure, {}, *value});
  }

  [[nodiscard]] std::string text(const std::string& tree, const std::string& path, const char* file) const {
    for (const std::string& group : {path, std::string()}) {
      auto content = read_system_file(root_, "sys/fs/cgroup" + tree + group + "/" + file);
      if (content.ok()) return std::move(content).value();
    }
    return "";
  }

  void add_v2(const std::string& path, Usage& usage) const {
    const std::string stat = text("", path, "cpu.stat");
    const auto memory = parse_integer(text("", path, "memory.current"));
    if (memory) usage.memory_bytes = scaled(memory, 1);
    const auto used = parse_keyed_integer(stat, "usage_usec");
    if (used) usage.cpu_seconds = scaled(used, 1e-6);
    const auto throttled = parse_keyed_integer(stat, "throttled_usec");
    if (throttled) usage.throttled_seconds = scaled(throttled, 1e-6);
  }

  void add_v1(const std::string& controller, const std::string& path, Usage& usage) const {
    if (controller == "memory") {
      usage.memory_bytes = scaled(parse_integer(text("/memory", path, "memory.usage_in_bytes")), 1);
    }
    if (controller == "cpuacct") {
      usage.cpu_seconds = scaled(parse_integer(text("/cpuacct", path, "cpuacct.usage")), 1e-9);
    }
    if (controller == "cpu") {
      usage.throttled_seconds = scaled(parse_keyed_integer(text("/cpu", path, "cpu.stat"), "throttled_time"), 1e-9);
    }
  }

  const std::string root_;
};

}  // namespace

std::unique_ptr<Source> cgroup_source(const std::string& root) {
  return std::make_unique<CgroupSource>(root);
}

}  // namespace trimtab::host
