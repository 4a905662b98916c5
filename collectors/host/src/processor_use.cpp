#include "host/processor_use.hpp"

#include <string_view>

#include "machine_text.hpp"
#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

bool is_busy(std::string_view mode) {
  return mode != "idle" && mode != "iowait" && mode != "guest" && mode != "guest_nice";
}

// "cpu0", "cpu1", ...: a line each.
int processors_in(std::string_view text) {
  int count = 0;
  for (std::size_t at = text.find("\ncpu"); at != std::string_view::npos; at = text.find("\ncpu", at + 1)) ++count;
  return count;
}

}  // namespace

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

}  // namespace trimtab::host
