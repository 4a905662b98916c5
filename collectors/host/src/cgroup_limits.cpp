#include "cgroup_limits.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

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

std::string text_of(const std::string& root, const std::string& path) {
  auto text = read_system_file(root, path);
  return text.ok() ? std::move(text).value() : std::string();
}

void add_v1_memory(const std::string& root, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    tighten(limits.memory_bytes,
            parse_memory_limit(text_of(root, kTree + "memory" + group + "/memory.limit_in_bytes")));
  });
}

void add_v1_cpu(const std::string& root, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    const std::string quota = text_of(root, kTree + "cpu" + group + "/cpu.cfs_quota_us");
    const std::string period = text_of(root, kTree + "cpu" + group + "/cpu.cfs_period_us");
    const auto quota_us = parse_integer(quota);
    if (quota_us) tighten(limits.cpus, parse_cpu_max(std::to_string(*quota_us) + " " + period));
  });
}

void add_v2(const std::string& root, const std::string& tree, const std::string& path, CgroupLimits& limits) {
  walk_up(path, [&](const std::string& group) {
    tighten(limits.memory_bytes, parse_memory_limit(text_of(root, tree + group + "/memory.max")));
    tighten(limits.cpus, parse_cpu_max(text_of(root, tree + group + "/cpu.max")));
  });
}

}  // namespace

Result<CgroupLimits> read_cgroup_limits(const std::string& root, pid_t pid) {
  return cgroup_limits_of(root, std::to_string(pid));
}

Result<CgroupLimits> cgroup_limits_of(const std::string& root, const std::string& process) {
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
