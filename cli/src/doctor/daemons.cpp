#include "doctor/daemons.hpp"

#include <cstdlib>
#include <sstream>
#include <utility>

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kSoon = std::chrono::hours(24 * 30);

}  // namespace

std::vector<MetricSample> parse_metric_page(std::string_view text) {
  std::vector<MetricSample> page;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    MetricSample sample;
    std::string head = line.substr(0, space);
    if (const std::size_t brace = head.find('{'); brace != std::string::npos && head.back() == '}') {
      sample.labels = head.substr(brace + 1, head.size() - brace - 2);
      head.resize(brace);
    }
    sample.name = head;
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + space + 1, &end);
    if (end != nullptr && *end == '\0' && end != line.c_str() + space + 1) page.push_back(std::move(sample));
  }
  return page;
}

Check check_configuration_file(const std::string& path, const std::string& problem) {
  if (problem.empty()) return {"configuration", Health::kOk, path, ""};
  return {"configuration", Health::kFail, problem, "mend it; the daemon does not start with it"};
}

Check check_certificate(const std::string& path, const net::CertificateDescription& described, Nanoseconds now) {
  const Nanoseconds expires = described.owner.expires;
  const auto days = std::chrono::duration_cast<std::chrono::hours>(expires - now).count() / 24;
  const std::string whose = path + " of " + described.owner.name;
  if (expires - now > kSoon) {
    return {"certificate", Health::kOk, whose + ", " + std::to_string(days) + " days left", ""};
  }
  const bool is_authority = described.owner.kind == net::CertificateKind::kAuthority;
  const std::string remedy =
      is_authority
          ? "'trimtab cert init --dir NEW_CA_DIRECTORY' makes a new one; docs/operating.md, 'A certificate "
            "ends', says how it takes the old one's place"
          : net::issue_command(described.owner, described.hosts) + " makes a new one, which is read without a restart";
  if (expires > now)
    return {"certificate", Health::kWarn, whose + " ends in " + std::to_string(days) + " days", remedy};
  return {"certificate", Health::kFail, whose + " has expired", remedy};
}

}  // namespace trimtab::cli
