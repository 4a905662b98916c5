#include "doctor/services.hpp"

#include <pwd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/settings.hpp"
#include "doctor/agent.hpp"
#include "doctor/certificates.hpp"
#include "doctor/daemons.hpp"
#include "doctor/database.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kPackaged = "/etc/trimtab";

// What one file says, and what is wrong with it.
template <typename Content>
struct Read {
  Status problem;
  std::optional<Content> content;
};

Read<agent::Configuration> read_agent(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) return {text.error(), {}};
  auto read = agent_configuration(path, *text);
  if (!read.ok()) return {read.error(), {}};
  return {agent::check_configuration(*read), std::move(read).value()};
}

Read<coordinator::Settings> read_coordinator(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok()) return {text.error(), {}};
  coordinator::Settings settings;
  if (Status read = coordinator::coordinator_settings().set_from_toml(settings, *text, path); !read.ok())
    return {std::move(read), {}};
  Status problem = coordinator::check_settings(settings);
  if (problem.ok() && !settings.tokens.empty() && !std::filesystem::exists(settings.tokens)) {
    problem = bad_input(path + ": there is no file " + settings.tokens +
                        ", which tokens names: 'trimtab token add NAME --role operate --tokens " + settings.tokens +
                        "' makes it");
  }
  return {std::move(problem), std::move(settings)};
}

Check file_check(const std::string& path, const Status& problem) {
  return check_configuration_file(path, problem.ok() ? "" : problem.error().message);
}

void append(std::vector<Check>& checks, std::vector<Check> more) {
  for (Check& check : more) checks.push_back(std::move(check));
}

// As whom its unit runs: agent-USER.toml is trimtab-agent@USER's, the others are those of the packages' users where
// they are in the packages' place.
std::string user_of(const AgentFile& file, const std::string& directory) {
  if (!file.user.empty()) return file.user;
  return directory == kPackaged ? "trimtab" : "";
}

std::vector<Check> agent_file_checks(const AgentFile& file, const Read<agent::Configuration>& read,
                                     const std::string& directory) {
  std::vector<Check> checks{file_check(file.path, read.problem)};
  if (!file.user.empty() && ::getpwnam(file.user.c_str()) == nullptr) {
    checks.push_back({"configuration", Health::kWarn, file.path + ": this machine has no user '" + file.user + "'",
                      "the file is read by trimtab-agent@" + file.user + " alone: name it after a user"});
  }
  if (!read.content) return checks;
  append(checks, certificate_checks(read.content->tls,
                                    {net::CertificateKind::kNode, read.content->node, user_of(file, directory)},
                                    SystemClock().wall()));
  return checks;
}

// Agents of one machine that would be taken for one, or cannot both start: those with one value of the key. `places`:
// files by value.
void add_shared(const std::string& key, const std::multimap<std::string, std::string>& places,
                std::vector<Check>& checks) {
  for (auto at = places.begin(); at != places.end(); at = places.upper_bound(at->first)) {
    if (places.count(at->first) < 2) continue;
    std::string files;
    for (auto [one, end] = places.equal_range(at->first); one != end; ++one) {
      files += (files.empty() ? "" : ", ") + one->second;
    }
    checks.push_back({"agents", Health::kFail, "one " + key + ", " + at->first + ", in " + files,
                      "give each agent of this machine a " + key + " of its own"});
  }
}

std::vector<Check> agents_checks(const std::string& directory) {
  std::vector<Check> checks;
  std::multimap<std::string, std::string> nodes;
  std::multimap<std::string, std::string> ports;
  for (const AgentFile& file : agent_files(directory)) {
    const auto read = read_agent(file.path);
    append(checks, agent_file_checks(file, read, directory));
    if (!read.content) continue;
    nodes.emplace(read.content->node, file.path);
    if (read.content->metrics_port != 0) ports.emplace(std::to_string(read.content->metrics_port), file.path);
  }
  add_shared("node", nodes, checks);
  add_shared("metrics_port", ports, checks);
  return checks;
}

}  // namespace

std::vector<Check> configuration_checks(const std::string& directory) {
  std::vector<Check> checks = agents_checks(directory);
  const std::string path = directory + "/coordinator.toml";
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return checks;
  const auto read = read_coordinator(path);
  checks.push_back(file_check(path, read.problem));
  if (!read.content) return checks;
  const std::string user = directory == kPackaged ? "trimtab-coordinator" : "";
  append(checks,
         certificate_checks(read.content->tls, {net::CertificateKind::kCoordinator, "", user}, SystemClock().wall()));
  append(checks, database_checks(*read.content));
  return checks;
}

}  // namespace trimtab::cli
