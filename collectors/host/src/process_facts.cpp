#include "host/process_facts.hpp"

#include "proc_text.hpp"
#include "system_file.hpp"

namespace trimtab::host {

namespace {

std::string proc_path(pid_t pid, const char* file) {
  return "proc/" + std::to_string(pid) + "/" + file;
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
  facts.peak_resident_bytes = parse_kilobytes_line(status, "VmHWM").value_or(0);
  facts.threads = parse_integer(parse_line(status, "Threads")).value_or(0);
  return facts;
}

}  // namespace trimtab::host
