#include "doctor/agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "doctor/certificates.hpp"
#include "doctor/daemons.hpp"
#include "files.hpp"
#include "net/host_text.hpp"
#include "net/http_client.hpp"
#include "net/loopback_host.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);

using Page = std::vector<MetricSample>;

Result<Page> read_page(const net::HttpEndpoint& endpoint) {
  TRIMTAB_TRY(const auto reply, net::http_request(endpoint, "GET", "/metrics", "", kPatience));
  if (reply.status != 200) return unavailable("the answer is status " + std::to_string(reply.status));
  Page page = parse_metric_page(reply.body);
  const bool is_agent =
      std::ranges::any_of(page, [](const MetricSample& one) { return one.name == "trimtab_agent_ranks_running"; });
  if (!is_agent) return unavailable("something else answers");
  return page;
}

std::string unit_of(const AgentPlace& place) {
  return place.user.empty() ? "trimtab-agent" : "trimtab-agent@" + place.user;
}

Check absent(const AgentPlace& place, const std::string& why) {
  return {"agent", place.named ? Health::kFail : Health::kWarn,
          "none answers at " + net::authority(place.host, place.port) + ": " + why,
          "see 'systemctl status " + unit_of(place) +
              "' and docs/operating.md, 'An agent does not answer'; --metrics-port names "
              "another's port"};
}

FirstLook look_at(const AgentPlace& place, const net::CredentialFiles& person, const Clock& clock) {
  if (place.port == 0) return {};
  net::HttpEndpoint endpoint{place.host, place.port, nullptr, "", net::CertificateKind::kNode};
  if (place.under_tls && person.empty()) {
    return {{{"agent", Health::kWarn, "its metrics at " + net::authority(place.host, place.port) + " are under TLS",
              "say who you are: --tls-authority, --tls-certificate, --tls-key"}}};
  }
  if (place.under_tls) {
    auto credentials = net::Credentials::load(person, clock.wall());
    if (!credentials.ok()) return {{absent(place, credentials.error().message)}};
    endpoint.tls = std::move(credentials).value();
  }
  auto first = read_page(endpoint);
  if (!first.ok() && !place.named && !place.configured) return {};
  if (!first.ok()) return {{absent(place, first.error().message)}};
  const auto again = [place, endpoint](const EarlierPage& earlier) -> std::vector<Check> {
    const auto second = read_page(endpoint);
    if (!second.ok()) return {absent(place, second.error().message)};
    return agent_checks(*second, earlier);
  };
  return {{}, std::move(first).value(), clock.monotonic(), again};
}

// Of several agents each says whose it is: "agent ana: link".
std::vector<Check> signed_by(const AgentPlace& place, std::vector<Check> checks) {
  constexpr std::string_view kWho = "agent";
  for (Check& check : checks) {
    if (!place.user.empty() && check.name.starts_with(kWho)) check.name.insert(kWho.size(), " " + place.user);
  }
  return checks;
}

}  // namespace

Result<agent::Configuration> agent_configuration(const std::string& path, const std::string& text) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  const auto defaults = agent::default_configuration(true, {}, host.data());
  return agent::configure(defaults, agent::ConfigurationFile{path, text}, {}, {});
}

AgentPlace agent_place(const std::optional<agent::Configuration>& configured, const std::vector<std::string>& hosts,
                       std::optional<std::uint16_t> port) {
  AgentPlace place;
  if (configured) {
    place.configured = true;
    place.port = configured->metrics_port;
    place.host = configured->metrics_address;
    place.under_tls = !net::is_loopback_host(place.host);
    const bool is_named = std::ranges::find(hosts, place.host) != hosts.end();
    if (place.under_tls && !is_named && !hosts.empty()) place.host = hosts.front();
  }
  place.named = port.has_value();
  if (port) place.port = *port;
  return place;
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

std::vector<AgentPlace> find_agents(const std::string& directory, std::optional<std::uint16_t> port) {
  std::vector<AgentPlace> places;
  for (const AgentFile& file : agent_files(directory)) {
    const auto text = read_file(file.path);
    const auto configured =
        text.ok() ? agent_configuration(file.path, *text) : Result<agent::Configuration>(text.error());
    if (!configured.ok()) continue;
    places.push_back(agent_place(*configured, certificate_hosts(configured->tls.certificate), std::nullopt));
    places.back().user = file.user;
  }
  if (places.empty()) return {agent_place(std::nullopt, {}, port)};
  if (!port) return places;
  const auto at_port = std::ranges::find(places, *port, &AgentPlace::port);
  AgentPlace named = at_port == places.end() ? places.front() : *at_port;
  named.port = *port;
  named.named = true;
  return {named};
}

std::vector<FirstLook> look_at_agents(const std::vector<AgentPlace>& places, const net::CredentialFiles& person,
                                      const Clock& clock) {
  std::vector<FirstLook> looks;
  for (const AgentPlace& place : places) {
    FirstLook look = look_at(place, person, clock);
    look.checks = signed_by(place, std::move(look.checks));
    if (look.again) {
      look.again = [place, again = std::move(look.again)](const EarlierPage& earlier) {
        return signed_by(place, again(earlier));
      };
    }
    looks.push_back(std::move(look));
  }
  return looks;
}

}  // namespace trimtab::cli
