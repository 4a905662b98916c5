#include "jobs/audit_text.hpp"

#include <array>
#include <ctime>

#include "jobs/progress.hpp"
#include "plans/plan_text.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

// "2026-03-01 14:05:09Z".
std::string utc(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "?";
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%SZ", &parts);
  return {text.data(), length};
}

}  // namespace

std::string describe(const std::vector<api::AuditEntry>& entries) {
  TextTable table({{"when (UTC)"}, {"who"}, {"job"}, {"what"}, {"why"}});
  for (const api::AuditEntry& entry : entries) {
    table.add(
        {utc(entry.at_ns), printable(entry.who), printable(entry.job), printable(entry.what), printable(entry.why)});
  }
  return table.empty() ? "the audit log is empty\n" : table.str();
}

}  // namespace trimtab::cli
