#include "doctor/checks.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace trimtab::cli {

namespace {

constexpr Bytes kMiB = 1048576;

Check ok(std::string name, std::string found) {
  return {std::move(name), Health::kOk, std::move(found), ""};
}

bool has_flag(std::string_view flags, std::string_view flag) {
  const std::string padded = " " + std::string(flags) + " ";
  return padded.find(" " + std::string(flag) + " ") != std::string::npos;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string_view to_string(Health health) {
  constexpr std::array<std::string_view, 3> kNames{"ok", "warn", "fail"};
  return kNames.at(static_cast<std::size_t>(health));
}

std::string_view to_string(Detail detail) {
  constexpr std::array<std::string_view, 4> kNames{"off", "ranges", "collectives", "kernels"};
  return kNames.at(static_cast<std::size_t>(detail));
}

void append(std::vector<Check>& checks, std::vector<Check> more) {
  std::ranges::move(more, std::back_inserter(checks));
}

Check check_program(const std::string& name, const std::string& path, bool executable) {
  if (executable) return ok(name, path);
  return {name, Health::kFail, "not found at " + path,
          "build or install the whole release: the programs stand side by side"};
}

Check check_library(const std::string& name, const std::string& path, bool readable, const std::string& price) {
  if (readable) return ok(name, path);
  return {name, Health::kWarn, "not found at " + path, "without it " + price};
}

Check check_cores(std::uint32_t cores, std::int32_t ranks) {
  const std::string found = std::to_string(cores) + " for " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  if (static_cast<std::int64_t>(cores) >= ranks) return ok("cores", found);
  return {"cores", Health::kWarn, found, "ranks that share a core measure each other: lower the job's world_size"};
}

Check check_memory(Bytes available, Bytes per_rank, std::int32_t ranks) {
  // Without a limit in the job: what a small rank with its libraries takes.
  const Bytes needed = std::max(per_rank, 300 * kMiB) * ranks;
  const std::string found = format_bytes(available) + " available, " + format_bytes(needed) + " wanted";
  if (available >= needed) return ok("memory", found);
  return {"memory", Health::kWarn, found, "end other programs, or lower the job's memory_limit or world_size"};
}

Check check_disk(const std::string& directory, Bytes available) {
  const std::string found = format_bytes(available) + " free in " + directory;
  if (available >= 1024 * kMiB) return ok("disk", found);
  return {"disk", available >= 100 * kMiB ? Health::kWarn : Health::kFail, found,
          "snapshots and logs go there: free some space or name another directory with --state"};
}

Check check_directory(const std::string& purpose, const std::string& directory, bool writable) {
  if (writable) return ok(purpose, directory);
  return {purpose, Health::kFail, directory + " cannot be written",
          "change its permissions or name another with --state"};
}

Check check_port(std::uint16_t port, PortState state) {
  const std::string name = "port " + std::to_string(port);
  if (state == PortState::kFree) return ok(name, "free");
  if (state == PortState::kOurs) return ok(name, "a coordinator answers");
  return {name, Health::kWarn, "taken by another program", "choose another with 'trimtab up --port'"};
}

Check check_openblas(const std::string& setting, std::string_view cpu_flags) {
  const std::string wanted = has_flag(cpu_flags, "avx512f") ? "SkylakeX" : has_flag(cpu_flags, "avx2") ? "Haswell" : "";
  if (!setting.empty()) return ok("OPENBLAS_CORETYPE", setting);
  if (wanted.empty()) return ok("OPENBLAS_CORETYPE", "unset, and no better kernels are known for this processor");
  return {"OPENBLAS_CORETYPE", Health::kWarn,
          "unset: OpenBLAS may fall back to slow kernels on a processor that it does not know",
          "set OPENBLAS_CORETYPE=" + wanted + " in the job's [environment] (the reference trainer does so itself)"};
}

Check check_threads(const std::string& setting) {
  if (!setting.empty()) return ok("OMP_NUM_THREADS", setting);
  return {"OMP_NUM_THREADS", Health::kWarn, "unset: each rank may start a thread for every core",
          "set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 in the job's [environment]"};
}

Check check_turned_off(const std::string& setting) {
  if (setting != "0") return ok("TRIMTAB", setting.empty() ? "unset" : setting);
  return {"TRIMTAB", Health::kFail, "0: switches everything off in the jobs", "unset TRIMTAB", Detail::kOff};
}

Check check_torch(const std::string& interpreter, const CommandOutcome& outcome, Health without) {
  const std::string name = "PyTorch";
  if (outcome.exit_code == 0) return ok(name, last_line(outcome.output) + " with " + interpreter);
  const std::string found = outcome.timed_out ? "importing it took too long" : last_line(outcome.output);
  const std::string who = without == Health::kFail ? "" : "the reference trainer and its benchmarks need it: ";
  return {name, without, interpreter + ": " + (found.empty() ? "cannot be run" : found),
          who + "install python3-torch, or name in job.toml the interpreter that has it"};
}

Detail remaining_detail(const std::vector<Check>& checks) {
  std::optional<Detail> least;
  for (const Check& check : checks) {
    if (check.remains) least = std::min(*check.remains, least.value_or(*check.remains));
  }
  return least.value_or(Detail::kRanges);
}

Health overall(const std::vector<Check>& checks) {
  Health worst = Health::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.health);
  return worst;
}

}  // namespace trimtab::cli
