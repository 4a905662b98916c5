#include "doctor_agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "doctor_daemons.hpp"
#include "files.hpp"
#include "net/certificates.hpp"
#include "net/host_text.hpp"
#include "net/http_client.hpp"
#include "net/loopback_host.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);
// Processor time is counted in hundredths of a second.
constexpr Nanoseconds kBetweenLooks = std::chrono::seconds(5);

using Page = std::vector<MetricSample>;

std::vector<std::string> hosts_of(const std::string& certificate) {
  const auto pem = read_file(certificate);
  if (!pem.ok()) return {};
  const auto described = net::describe_certificate(*pem, certificate);
  return described.ok() ? described->hosts : std::vector<std::string>{};
}

Result<Page> read_page(const net::HttpEndpoint& endpoint) {
  TRIMTAB_TRY(const auto reply, net::http_request(endpoint, "GET", "/metrics", "", kPatience));
  if (reply.status != 200) return unavailable("the answer is status " + std::to_string(reply.status));
  Page page = parse_metric_page(reply.body);
  const bool is_agent =
      std::ranges::any_of(page, [](const MetricSample& one) { return one.name == "trimtab_agent_ranks_running"; });
  if (!is_agent) return unavailable("something else answers");
  return page;
}

Check absent(const AgentPlace& place, const std::string& why) {
  return {
      "agent", place.named ? Health::kFail : Health::kWarn,
      "none answers at " + net::authority(place.host, place.port) + ": " + why,
      "see 'systemctl status trimtab-agent' and docs/operating.md, 'An agent does not answer'; --metrics-port names "
      "another's port"};
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

AgentPlace find_agent(const std::string& directory, std::optional<std::uint16_t> port) {
  const std::string path = directory + "/agent.toml";
  const auto text = read_file(path);
  const auto configured = text.ok() ? agent_configuration(path, *text) : Result<agent::Configuration>(text.error());
  if (!configured.ok()) return agent_place(std::nullopt, {}, port);
  return agent_place(*configured, hosts_of(configured->tls.certificate), port);
}

std::vector<Check> running_agent_checks(const AgentPlace& place, const net::CredentialFiles& person, const Clock& clock,
                                        const Pause& pause) {
  if (place.port == 0) return {};
  net::HttpEndpoint endpoint{place.host, place.port, nullptr, "", net::CertificateKind::kNode};
  if (place.under_tls && person.empty()) {
    return {{"agent", Health::kWarn, "its metrics at " + net::authority(place.host, place.port) + " are under TLS",
             "say who you are: --tls-authority, --tls-certificate, --tls-key"}};
  }
  if (place.under_tls) {
    auto credentials = net::Credentials::load(person, clock.wall());
    if (!credentials.ok()) return {absent(place, credentials.error().message)};
    endpoint.tls = std::move(credentials).value();
  }
  auto first = read_page(endpoint);
  if (!first.ok() && !place.named && !place.configured) return {};
  if (!first.ok()) return {absent(place, first.error().message)};
  const Nanoseconds began = clock.monotonic();
  pause(kBetweenLooks);
  const auto second = read_page(endpoint);
  if (!second.ok()) return {absent(place, second.error().message)};
  return agent_checks(*second, EarlierPage{std::move(first).value(), clock.monotonic() - began});
}

}  // namespace trimtab::cli
