#include "doctor_services.hpp"

#include <filesystem>
#include <utility>

#include "coordinator/settings.hpp"
#include "doctor_agent.hpp"
#include "doctor_daemons.hpp"
#include "files.hpp"
#include "net/certificates.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);

struct Read {
  Status problem;
  net::CredentialFiles tls;
};

Read read_agent(const std::string& path, const std::string& text) {
  const auto read = agent_configuration(path, text);
  return read.ok() ? Read{agent::check_configuration(*read), read->tls} : Read{read.error(), {}};
}

Read read_coordinator(const std::string& path, const std::string& text) {
  coordinator::Settings settings;
  Status read = coordinator::apply_toml(settings, text, path);
  if (!read.ok()) return {std::move(read), {}};
  Read result{coordinator::check_settings(settings), settings.tls};
  if (result.problem.ok() && !settings.tokens.empty() && !std::filesystem::exists(settings.tokens)) {
    result.problem = bad_input(path + ": there is no file " + settings.tokens +
                               ", which tokens names: 'trimtab token add NAME --role operate --tokens " +
                               settings.tokens + "' makes it");
  }
  return result;
}

Check certificate_check(const std::string& path) {
  const auto pem = read_file(path);
  if (!pem.ok())
    return {"certificate", Health::kFail, pem.error().message, "put it there, or change the configuration"};
  const auto described = net::describe_certificate(*pem, path);
  if (!described.ok()) return {"certificate", Health::kFail, described.error().message, "issue it anew"};
  return check_certificate(path, described->owner.name, described->owner.expires, SystemClock().wall());
}

}  // namespace

std::vector<Check> configuration_checks(const std::string& directory) {
  constexpr std::pair<const char*, Read (*)(const std::string&, const std::string&)> kFiles[] = {
      {"agent.toml", read_agent}, {"coordinator.toml", read_coordinator}};
  std::vector<Check> checks;
  for (const auto& [name, reader] : kFiles) {
    const std::string path = directory + "/" + name;
    std::error_code failure;
    if (!std::filesystem::exists(path, failure)) continue;
    const auto text = read_file(path);
    if (!text.ok()) {
      checks.push_back(check_configuration_file(path, text.error().message));
      continue;
    }
    const Read read = reader(path, *text);
    checks.push_back(check_configuration_file(path, read.problem.ok() ? "" : read.problem.error().message));
    if (!read.tls.certificate.empty()) checks.push_back(certificate_check(read.tls.certificate));
    if (!read.tls.authority.empty()) checks.push_back(certificate_check(read.tls.authority));
  }
  return checks;
}

std::vector<Check> running_coordinator_checks(const CoordinatorClient& client, bool named) {
  const auto page = client.get("/metrics", kPatience);
  if (page.ok()) return coordinator_checks(parse_metric_page(*page));
  if (!named) return {};
  return {{"coordinator", page.error().kind == ErrorKind::kUnavailable ? Health::kFail : Health::kWarn,
           page.error().message, "see 'trimtab status' and docs/operating.md; metrics need a token of tenant *"}};
}

}  // namespace trimtab::cli
