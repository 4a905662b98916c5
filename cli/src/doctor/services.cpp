#include "doctor/services.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "doctor/certificates.hpp"
#include "files.hpp"
#include "net/granting_file.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kPackaged = "/etc/trimtab";

// As whom its unit runs: agent-USER.toml is trimtab-agent@USER's, the others are those of the packages' users where
// they are in the packages' place.
std::string user_of(const AgentFile& file, const std::string& directory) {
  if (!file.user.empty()) return file.user;
  return directory == kPackaged ? "trimtab" : "";
}

// `problem` is what reading it gave.
Check file_check(const std::string& path, const Status& problem) {
  if (problem.ok()) return {"configuration", Health::kOk, path, ""};
  return {"configuration", Health::kFail, problem.error().message, "mend it; the daemon does not start with it"};
}

// Of those that are named and there; `user` is the daemon's.
std::vector<Check> grant_checks(const std::vector<std::string>& paths, const std::string& user) {
  std::vector<Check> checks;
  for (const std::string& path : paths) {
    if (path.empty() || !is_there(path)) continue;
    const Status granted = net::check_granting_file(path, reader_of(user));
    if (granted.ok()) continue;
    checks.push_back({"rights", Health::kFail, granted.error().message,
                      "the daemon does not take it so (docs/security.md, 'Files that grant')"});
  }
  return checks;
}

void add_agent_file(const AgentFile& file, const Result<agent::Configuration>& read, const std::string& directory,
                    std::vector<Check>& checks) {
  checks.push_back(file_check(file.path, read.ok() ? agent::check_configuration(*read) : read.error()));
  if (!file.user.empty() && ::getpwnam(file.user.c_str()) == nullptr) {
    checks.push_back({"configuration", Health::kWarn, file.path + ": this machine has no user '" + file.user + "'",
                      "the file is read by trimtab-agent@" + file.user + " alone: name it after a user"});
  }
  append(checks, grant_checks({file.path}, user_of(file, directory)));
  if (!read.ok()) return;
  append(checks, certificate_checks(read->tls, {net::CertificateKind::kNode, read->node, user_of(file, directory)},
                                    SystemClock().wall()));
}

Check site_policy_check(const std::string& path) {
  const auto text = read_file(path);
  const auto site = text.ok() ? coordinator::parse_site_policy(*text, path) : text.error();
  if (!site.ok()) {
    return {"site policy", Health::kFail, site.error().message, "mend it; the coordinator does not start with it"};
  }
  const std::string found = path + ": " + coordinator::describe(*site);
  if (site->enabled) return {"site policy", Health::kOk, found, ""};
  return {"site policy", Health::kWarn, found, "enabled = true there lets jobs in again"};
}

// Agents of one machine that would be taken for one, or cannot both start: those with one value of the key. `places`:
// files by value.
void add_shared(const std::string& key, const std::map<std::string, std::vector<std::string>>& places,
                std::vector<Check>& checks) {
  for (const auto& [value, files] : places) {
    if (files.size() < 2) continue;
    checks.push_back({"agents", Health::kFail, "one " + key + ", " + value + ", in " + joined(files),
                      "give each agent of this machine a " + key + " of its own"});
  }
}

std::vector<Check> agents_checks(const std::string& directory) {
  std::vector<Check> checks;
  std::map<std::string, std::vector<std::string>> nodes;
  std::map<std::string, std::vector<std::string>> ports;
  for (const AgentFile& file : agent_files(directory)) {
    const auto read = read_agent_configuration(file.path);
    add_agent_file(file, read, directory, checks);
    if (!read.ok()) continue;
    nodes[read->node].push_back(file.path);
    if (read->metrics_port != 0) ports[std::to_string(read->metrics_port)].push_back(file.path);
  }
  add_shared("node", nodes, checks);
  add_shared("metrics_port", ports, checks);
  return checks;
}

Status problem_of(const coordinator::Settings& settings, const std::string& path) {
  TRIMTAB_TRY_STATUS(coordinator::check_settings(settings));
  if (settings.tokens.empty() || is_there(settings.tokens)) return {};
  return bad_input(path + ": there is no file " + settings.tokens +
                   ", which tokens names: 'trimtab token add NAME --role operate --tokens " + settings.tokens +
                   "' makes it");
}

// Found of a database that can be used.
std::string found_text(const ServerInspection& seen) {
  const std::string tables = seen.version == 0 ? "no tables yet: the coordinator makes them when it starts"
                                               : "version " + std::to_string(seen.version);
  return seen.server + " as " + seen.role + ", " + tables + (seen.owner.empty() ? "" : ", held by " + seen.owner);
}

}  // namespace

Result<agent::Configuration> agent_configuration(const std::string& path, const std::string& text) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  const auto defaults = agent::default_configuration(true, {}, host.data());
  return agent::configure(defaults, agent::ConfigurationFile{path, text}, {}, {});
}

Result<agent::Configuration> read_agent_configuration(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  return agent_configuration(path, text);
}

Result<coordinator::Settings> read_coordinator_settings(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  coordinator::Settings settings;
  TRIMTAB_TRY_STATUS(coordinator::coordinator_settings().set_from_toml(settings, text, path));
  return settings;
}

std::vector<AgentFile> agent_files(const std::string& directory) {
  constexpr std::string_view kBegin = "agent-";
  constexpr std::string_view kEnd = ".toml";
  std::vector<AgentFile> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
    const std::string name = entry.path().filename().string();
    if (name == "agent.toml") files.push_back({entry.path().string(), ""});
    const bool of_user = name.starts_with(kBegin) && name.ends_with(kEnd) && name.size() > kBegin.size() + kEnd.size();
    if (!of_user) continue;
    files.push_back({entry.path().string(), name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size())});
  }
  std::ranges::sort(files, {}, &AgentFile::user);
  return files;
}

Check check_server_database(const std::string& key, const Result<ServerInspection>& seen) {
  if (!seen.ok()) {
    return {key, Health::kFail, seen.error().message,
            "see docs/operating.md, 'The database server does not answer'; who asks here is this user, with this "
            "user's files: ask as the coordinator's"};
  }
  if (!seen->writable.ok()) {
    const bool newer = seen->version > seen->known;
    return {key, Health::kFail, found_text(*seen) + ": " + seen->writable.error().message,
            newer ? "see docs/operating.md, 'The database is of another version'"
                  : "see docs/operating.md, 'The database cannot be written'"};
  }
  if (seen->version > 0 && seen->version < seen->known) {
    return {key, Health::kWarn,
            found_text(*seen) + ", and this release upgrades it to " + std::to_string(seen->known) + " when it starts",
            "see docs/operating.md, 'The database is of another version': upgrade all that share it together"};
  }
  return {key, Health::kOk, found_text(*seen), ""};
}

std::vector<Check> configuration_checks(const std::string& directory) {
  std::vector<Check> checks = agents_checks(directory);
  const std::string path = directory + "/coordinator.toml";
  if (!is_there(path)) return checks;
  const auto read = read_coordinator_settings(path);
  checks.push_back(file_check(path, read.ok() ? problem_of(*read, path) : read.error()));
  const std::string user = directory == kPackaged ? "trimtab-coordinator" : "";
  append(checks, grant_checks({path}, user));
  if (!read.ok()) return checks;
  append(checks, grant_checks({read->tokens, read->deny_list, read->site_policy}, user));
  if (!read->site_policy.empty()) checks.push_back(site_policy_check(read->site_policy));
  append(checks, certificate_checks(read->tls, {net::CertificateKind::kCoordinator, "", user}, SystemClock().wall()));
  for (const coordinator::ServerDatabase& one : coordinator::inspect_server_databases(*read)) {
    checks.push_back(check_server_database(one.key, one.seen));
  }
  return checks;
}

Services configured_services(const std::string& directory) {
  return {!agent_files(directory).empty(), is_there(directory + "/coordinator.toml")};
}

Scope scope_of(const Services& services, bool job, bool state) {
  Scope scope;
  // Without a service it is `trimtab up` that a person wants, which starts both.
  scope.coordinator_program = services.coordinator || services.none();
  scope.agent_program = services.agent || services.none();
  scope.up_directories = services.none() || job || state;
  scope.up_port = !services.coordinator;
  const bool runs_ranks = job || services.agent || services.none();
  if (runs_ranks) scope.without_torch = job ? Health::kFail : Health::kWarn;
  return scope;
}

}  // namespace trimtab::cli
