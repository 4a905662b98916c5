#include <optional>

#include "host/process_facts.hpp"
#include "proc_text.hpp"
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

// Of the group that this process is in; inside a container its files may stand at the mount's root.
std::string group_text(const std::string& root, const std::string& tree, const std::string& path, const char* file) {
  for (const std::string& group : {path, std::string()}) {
    auto content = read_system_file(root, "sys/fs/cgroup" + tree + group + "/" + file);
    if (content.ok()) return std::move(content).value();
  }
  return "";
}

void add_v2(const std::string& root, const std::string& path, Usage& usage) {
  const std::string stat = group_text(root, "", path, "cpu.stat");
  const auto memory = parse_integer(group_text(root, "", path, "memory.current"));
  if (memory) usage.memory_bytes = scaled(memory, 1);
  const auto used = parse_keyed_integer(stat, "usage_usec");
  if (used) usage.cpu_seconds = scaled(used, 1e-6);
  const auto throttled = parse_keyed_integer(stat, "throttled_usec");
  if (throttled) usage.throttled_seconds = scaled(throttled, 1e-6);
}

void add_v1(const std::string& root, const std::string& controller, const std::string& path, Usage& usage) {
  const auto text = [&](const char* file) { return group_text(root, "/" + controller, path, file); };
  if (controller == "memory") usage.memory_bytes = scaled(parse_integer(text("memory.usage_in_bytes")), 1);
  if (controller == "cpuacct") usage.cpu_seconds = scaled(parse_integer(text("cpuacct.usage")), 1e-9);
  if (controller == "cpu") {
    usage.throttled_seconds = scaled(parse_keyed_integer(text("cpu.stat"), "throttled_time"), 1e-9);
  }
}

}  // namespace

Result<Samples> read_cgroup(const std::string& root) {
  TRIMTAB_TRY(const std::string text, read_system_file(root, "proc/self/cgroup"));
  TRIMTAB_TRY(const CgroupLimits limits, read_cgroup_limits(root, "self"));
  Usage usage;
  for (const CgroupPath& group : parse_cgroup_paths(text)) {
    if (group.controllers.empty()) add_v2(root, group.path, usage);
    for (const std::string& controller : group.controllers) add_v1(root, controller, group.path, usage);
  }
  Samples samples;
  const auto add = [&](const Measure& measure, const std::optional<double>& value) {
    if (value) samples.push_back({&measure, {}, *value});
  };
  add(kCgroupMemory, usage.memory_bytes);
  add(kCgroupMemoryLimit, scaled(limits.memory_bytes, 1));
  add(kCgroupCpuLimit, limits.cpus);
  add(kCgroupCpu, usage.cpu_seconds);
  add(kCgroupThrottled, usage.throttled_seconds);
  return samples;
}

}  // namespace trimtab::host
