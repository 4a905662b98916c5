#include "doctor/coordinator.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemons/embedded.hpp"
#include "doctor/certificates.hpp"
#include "files.hpp"
#include "net/host_text.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::seconds(5);

std::optional<coordinator::Settings> settings_at(const std::string& path) {
  const auto text = read_file(path);
  coordinator::Settings settings;
  const bool usable = text.ok() && coordinator::coordinator_settings().set_from_toml(settings, *text, path).ok() &&
                      coordinator::check_settings(settings).ok();
  return usable ? std::optional(std::move(settings)) : std::nullopt;
}

bool is_unspecified(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

std::vector<Check> absent(const CoordinatorPlace& place, const Error& error) {
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

CoordinatorPlace coordinator_place(const coordinator::Settings& settings, const std::vector<std::string>& hosts,
                                   const SessionFlags& flags) {
  CoordinatorPlace place;
  place.configured = true;
  place.under_tls = !settings.tls.empty();
  place.address.host = settings.address;
  place.address.port = settings.port;
  place.address.token_file = flags.token_file;
  if (place.under_tls) place.address.tls = flags.tls;
  const bool is_named = std::ranges::find(hosts, settings.address) != hosts.end();
  if (place.under_tls && !is_named && !hosts.empty()) place.address.host = hosts.front();
  if (is_unspecified(place.address.host)) place.address.host = "127.0.0.1";
  return place;
}

std::optional<CoordinatorPlace> find_coordinator(const SessionFlags& flags, const std::string& directory) {
  const std::string path = directory + "/coordinator.toml";
  const bool named = !flags.coordinator.empty();
  const auto state = state_directory(flags.state);
  const bool up = !flags.state.empty() && state.ok() && running_state(*state);
  std::error_code failure;
  if (!named && !up && std::filesystem::exists(path, failure)) {
    const auto settings = settings_at(path);
    if (!settings) return std::nullopt;
    return coordinator_place(*settings, certificate_hosts(settings->tls.certificate), flags);
  }
  const auto client = existing_coordinator(flags);
  if (!client.ok()) return std::nullopt;
  CoordinatorPlace place;
  place.address = client->address();
  place.named = named;
  return place;
}

FirstLook look_at_coordinator(const CoordinatorPlace& place, const Clock& clock) {
  if (place.under_tls && place.address.tls.empty()) {
    return {{{"coordinator", Health::kWarn,
              "its metrics at " + net::authority(place.address.host, place.address.port) + " are under TLS",
              "say who you are: --tls-authority, --tls-certificate, --tls-key"}}};
  }
  const CoordinatorClient client(place.address);
  const auto first = client.get("/metrics", kPatience);
  if (!first.ok() && !place.named && !place.configured) return {};
  if (!first.ok()) return {absent(place, first.error())};
  const auto again = [client, place](const EarlierPage& earlier) {
    const auto second = client.get("/metrics", kPatience);
    if (!second.ok()) return absent(place, second.error());
    return coordinator_checks(parse_metric_page(*second), earlier);
  };
  return {{}, parse_metric_page(*first), clock.monotonic(), again};
}

}  // namespace trimtab::cli
