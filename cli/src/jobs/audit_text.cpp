#include "jobs/audit_text.hpp"

#include <array>
#include <ctime>

#include "jobs/progress.hpp"
#include "jobs/reply_document.hpp"
#include "json_text.hpp"
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

Result<std::vector<AuditEntry>> parse_audit(std::string_view text) {
  return reading(text, [](const nlohmann::json& document) {
    std::vector<AuditEntry> entries;
    for (const nlohmann::json& object : document.at("entries")) {
      AuditEntry entry;
      take(object, "entry", entry.entry);
      take(object, "at_ns", entry.at_ns);
      take(object, "who", entry.who);
      take(object, "what", entry.what);
      take(object, "job", entry.job);
      take(object, "why", entry.why);
      entries.push_back(std::move(entry));
    }
    return entries;
  });
}

std::string describe(const std::vector<AuditEntry>& entries) {
  TextTable table({{"when (UTC)"}, {"who"}, {"job"}, {"what"}, {"why"}});
  for (const AuditEntry& entry : entries) {
    table.add(
        {utc(entry.at_ns), printable(entry.who), printable(entry.job), printable(entry.what), printable(entry.why)});
  }
  return table.empty() ? "the audit log is empty\n" : table.str();
}

}  // namespace trimtab::cli
