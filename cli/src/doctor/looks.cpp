#include "doctor/looks.hpp"

#include <algorithm>

#include "daemons/embedded.hpp"
#include "doctor/certificates.hpp"
#include "doctor/services.hpp"
#include "files.hpp"
#include "net/host_text.hpp"
#include "net/http_client.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);
// Processor time is counted in hundredths of a second.
constexpr Nanoseconds kBetweenLooks = std::chrono::seconds(5);

using Page = FirstLook::Page;

// A daemon that is asked twice.
struct Asked {
  bool expected = false;  // one that does not answer is told of
  std::function<Result<Page>()> read;
  std::function<std::vector<Check>(const Page& page, const EarlierPage& earlier)> judge;
  std::function<std::vector<Check>(const Error& error)> absent;
};

FirstLook first_look(const Asked& asked, const Clock& clock) {
  auto first = asked.read();
  if (!first.ok()) return asked.expected ? FirstLook{asked.absent(first.error())} : FirstLook{};
  const auto again = [asked](const EarlierPage& earlier) {
    const auto second = asked.read();
    return second.ok() ? asked.judge(*second, earlier) : asked.absent(second.error());
  };
  return {{}, std::move(first).value(), clock.monotonic(), again};
}

FirstLook only_under_tls(const char* daemon, const std::string& host, std::uint16_t port) {
  return {{{daemon, Health::kWarn, "its metrics at " + net::authority(host, port) + " are under TLS",
            "say who you are: --tls-authority, --tls-certificate, --tls-key"}}};
}

// A name that the certificate is for, where the address itself is none.
std::string named_host(const std::string& host, const std::vector<std::string>& hosts) {
  return hosts.empty() || std::ranges::find(hosts, host) != hosts.end() ? host : hosts.front();
}

Result<Page> read_agent_page(const net::HttpEndpoint& endpoint) {
  TRIMTAB_TRY(const auto reply, net::http_request(endpoint, "GET", "/metrics", "", kPatience));
  if (reply.status != 200) return unavailable("the answer is status " + std::to_string(reply.status));
  Page page = parse_metric_page(reply.body);
  const bool is_agent =
      std::ranges::find(page, std::string_view("trimtab_agent_ranks_running"), &MetricSample::name) != page.end();
  if (!is_agent) return unavailable("something else answers");
  return page;
}

Check absent_agent(const AgentPlace& place, const Error& error) {
  return {"agent", place.named ? Health::kFail : Health::kWarn,
          "none answers at " + net::authority(place.host, place.port) + ": " + error.message,
          "see 'systemctl status trimtab-agent" + (place.user.empty() ? "" : "@" + place.user) +
              "' and docs/operating.md, 'An agent does not answer'; --metrics-port names "
              "another's port"};
}

// Of several agents each says whose it is: "agent ana: link".
std::vector<Check> signed_by(const AgentPlace& place, std::vector<Check> checks) {
  constexpr std::string_view kWho = "agent";
  for (Check& check : checks) {
    if (!place.user.empty() && check.name.starts_with(kWho)) check.name.insert(kWho.size(), " " + place.user);
  }
  return checks;
}

FirstLook look_at_agent(const AgentPlace& place, const net::CredentialFiles& person, const Clock& clock) {
  if (place.port == 0) return {};
  net::HttpEndpoint endpoint{place.host, place.port, nullptr, "", net::CertificateKind::kNode};
  const auto absent = [place](const Error& error) { return signed_by(place, {absent_agent(place, error)}); };
  if (place.under_tls) {
    if (person.empty()) {
      FirstLook look = only_under_tls("agent", place.host, place.port);
      look.checks = signed_by(place, std::move(look.checks));
      return look;
    }
    auto credentials = net::Credentials::load(person, clock.wall());
    if (!credentials.ok()) return {absent(credentials.error())};
    endpoint.tls = std::move(credentials).value();
  }
  const auto judge = [place](const Page& page, const EarlierPage& earlier) {
    return signed_by(place, agent_checks(page, earlier));
  };
  return first_look({place.named || place.configured, [endpoint] { return read_agent_page(endpoint); }, judge, absent},
                    clock);
}

std::vector<Check> absent_coordinator(const CoordinatorPlace& place, const Error& error) {
  const bool is_away = error.kind == ErrorKind::kUnavailable;
  if (is_away && place.configured) {
    // Doctor is also run before the service's first start.
    return {{"coordinator", Health::kWarn, error.message,
             "see 'systemctl status trimtab-coordinator' and docs/operating.md, 'The coordinator does not answer'"}};
  }
  return {{"coordinator", is_away ? Health::kFail : Health::kWarn, error.message,
           "see 'trimtab status' and docs/operating.md; metrics need a token of tenant *"}};
}

}  // namespace

std::vector<Check> look_again(std::vector<FirstLook> looks, const Clock& clock, const Pause& pause) {
  if (std::ranges::any_of(looks, [](const FirstLook& look) { return static_cast<bool>(look.again); })) {
    pause(kBetweenLooks);
  }
  std::vector<Check> checks;
  for (FirstLook& look : looks) {
    append(checks, std::move(look.checks));
    if (look.again) append(checks, look.again({std::move(look.page), clock.monotonic() - look.at}));
  }
  return checks;
}

AgentPlace agent_place(const std::optional<agent::Configuration>& configured, const std::vector<std::string>& hosts,
                       std::optional<std::uint16_t> port) {
  AgentPlace place;
  if (configured) {
    place.configured = true;
    place.port = configured->metrics_port;
    place.under_tls = !net::is_loopback_host(configured->metrics_address);
    place.host = place.under_tls ? named_host(configured->metrics_address, hosts) : configured->metrics_address;
  }
  place.named = port.has_value();
  if (port) place.port = *port;
  return place;
}

std::vector<AgentPlace> find_agents(const std::string& directory, std::optional<std::uint16_t> port) {
  std::vector<AgentPlace> places;
  for (const AgentFile& file : agent_files(directory)) {
    const auto configured = read_agent_configuration(file.path);
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
  for (const AgentPlace& place : places) looks.push_back(look_at_agent(place, person, clock));
  return looks;
}

CoordinatorPlace coordinator_place(const coordinator::Settings& settings, const std::vector<std::string>& hosts,
                                   const SessionFlags& flags) {
  CoordinatorPlace place;
  place.configured = true;
  place.under_tls = !settings.tls.empty();
  place.address = {settings.address, settings.port, {}, flags.token_file, flags.coordinator_user};
  if (place.under_tls) {
    place.address.tls = flags.tls;
    place.address.host = named_host(settings.address, hosts);
  }
  if (place.address.host == "0.0.0.0" || place.address.host == "::") place.address.host = "127.0.0.1";
  return place;
}

std::optional<CoordinatorPlace> find_coordinator(const SessionFlags& flags, const std::string& directory) {
  const std::string path = directory + "/coordinator.toml";
  const bool named = !flags.coordinator.empty();
  const auto state = state_directory(flags.state);
  const bool up = !flags.state.empty() && state.ok() && running_state(*state);
  if (!named && !up && is_there(path)) {
    const auto settings = read_coordinator_settings(path);
    if (!settings.ok() || !coordinator::check_settings(*settings).ok()) return std::nullopt;
    return coordinator_place(*settings, certificate_hosts(settings->tls.certificate), flags);
  }
  const auto client = existing_coordinator(flags);
  if (!client.ok()) return std::nullopt;
  return CoordinatorPlace{client->address(), false, false, named};
}

FirstLook look_at_coordinator(const CoordinatorPlace& place, const Clock& clock) {
  if (place.under_tls && place.address.tls.empty()) {
    return only_under_tls("coordinator", place.address.host, place.address.port);
  }
  const auto read = [client = CoordinatorClient(place.address)]() -> Result<Page> {
    TRIMTAB_TRY(const std::string body, client.get("/metrics", kPatience));
    return parse_metric_page(body);
  };
  const auto absent = [place](const Error& error) { return absent_coordinator(place, error); };
  return first_look({place.named || place.configured, read, coordinator_checks, absent}, clock);
}

}  // namespace trimtab::cli
