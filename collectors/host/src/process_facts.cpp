#include "host/process_facts.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

std::string proc_path(pid_t pid, const char* file) {
  return "proc/" + std::to_string(pid) + "/" + file;
}

bool is_busy(std::string_view mode) {
  return mode != "idle" && mode != "iowait" && mode != "guest" && mode != "guest_nice";
}

// "cpu0", "cpu1", ...: a line each.
int processors_in(std::string_view text) {
  int count = 0;
  for (std::size_t at = text.find("\ncpu"); at != std::string_view::npos; at = text.find("\ncpu", at + 1)) ++count;
  return count;
}

// Where the trees are mounted, in every distribution: v1 by controller, v2 alone or beside v1.
const std::string kTree = "sys/fs/cgroup/";

template <typename T>
void tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other) limit = limit ? std::min(*limit, *other) : *other;
}

// The group, then each one around it up to the root. A group that is not visible (a container's namespace) has no
// files.
void walk_up(std::string path, const std::function<void(const std::string&)>& visit) {
  while (!path.empty() && path != "/") {
    visit(path);
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  visit("");
}

void add_v1_memory(const std::string& root, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    tighten(limits.memory_bytes,
            parse_memory_limit(system_text(root, kTree + "memory" + group + "/memory.limit_in_bytes")));
  });
}

void add_v1_cpu(const std::string& root, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    const std::string quota = system_text(root, kTree + "cpu" + group + "/cpu.cfs_quota_us");
    const std::string period = system_text(root, kTree + "cpu" + group + "/cpu.cfs_period_us");
    const auto quota_us = parse_integer(quota);
    if (quota_us) tighten(limits.cpus, parse_cpu_max(std::to_string(*quota_us) + " " + period));
  });
}

void add_v2(const std::string& root, const std::string& tree, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    tighten(limits.memory_bytes, parse_memory_limit(system_text(root, tree + group + "/memory.max")));
    tighten(limits.cpus, parse_cpu_max(system_text(root, tree + group + "/cpu.max")));
  });
}

}  // namespace

Result<ProcessFacts> read_process_facts(const std::string& root, pid_t pid) {
  TRIMTAB_TRY(const std::string stat_text, read_system_file(root, proc_path(pid, "stat")));
  TRIMTAB_TRY(const StatFields stat, parse_stat(stat_text));
  TRIMTAB_TRY(const std::string status, read_system_file(root, proc_path(pid, "status")));
  ProcessFacts facts;
  facts.zombie = stat.state == 'Z' || stat.state == 'X';
  facts.cpu_time = ticks_to_time(stat.user_ticks + stat.system_ticks);
  facts.resident_bytes = parse_kilobytes_line(status, "VmRSS").value_or(0);
  facts.threads = parse_integer(parse_line(status, "Threads")).value_or(0);
  return facts;
}

Result<MachineUse> read_machine_use(const std::string& root) {
  TRIMTAB_TRY(const std::string text, read_system_file(root, "proc/stat"));
  TRIMTAB_TRY(const MachineTicks ticks, parse_machine_stat(text));
  MachineUse use;
  for (const auto& [mode, count] : ticks.modes) {
    if (is_busy(mode)) use.busy += ticks_to_time(count);
  }
  use.processors = processors_in(text);
  if (use.processors == 0) return bad_input("/proc/stat names no processor");
  return use;
}

std::vector<ProcessUse> read_process_uses(const std::string& root) {
  std::vector<ProcessUse> uses;
  for (const std::string& name : list_system_directory(root, "proc")) {
    const auto process = parse_integer(name);
    if (!process || *process <= 0) continue;
    const auto text = read_system_file(root, "proc/" + name + "/stat");
    const auto stat = text.ok() ? parse_stat(*text) : Result<StatFields>(text.error());
    if (!stat.ok()) continue;
    const std::int64_t ticks =
        stat->user_ticks + stat->system_ticks + stat->children_user_ticks + stat->children_system_ticks;
    uses.push_back({static_cast<pid_t>(*process), static_cast<pid_t>(stat->parent), ticks_to_time(ticks)});
  }
  return uses;
}

Result<CgroupLimits> read_cgroup_limits(const std::string& root, const std::string& process) {
  TRIMTAB_TRY(const std::string text, read_system_file(root, "proc/" + process + "/cgroup"));
  CgroupLimits limits;
  for (const CgroupPath& group : parse_cgroup_paths(text)) {
    if (group.controllers.empty()) {
      add_v2(root, kTree.substr(0, kTree.size() - 1), group.path, limits);
      add_v2(root, kTree + "unified", group.path, limits);
    }
    for (const std::string& controller : group.controllers) {
      if (controller == "memory") add_v1_memory(root, group.path, limits);
      if (controller == "cpu") add_v1_cpu(root, group.path, limits);
    }
  }
  return limits;
}

}  // namespace trimtab::host
