#include "coordinator/settings.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/units.hpp"
#include "net/certificates.hpp"
#include "net/loopback_host.hpp"
#include "schema/nearest.hpp"
#include "schema/toml_nesting.hpp"

namespace trimtab::coordinator {
namespace {

Status number(const std::string& value, std::uint64_t high, std::uint64_t& out) {
  std::uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc{} || end != value.data() + value.size() || parsed > high) {
    return bad_input("a whole number of at most " + std::to_string(high) + " is needed");
  }
  out = parsed;
  return {};
}

Status apply_listen(Settings& settings, const std::string& value) {
  const auto colon = value.rfind(':');
  if (colon == std::string::npos) return bad_input("HOST:PORT is needed, such as 127.0.0.1:7420");
  std::string host = value.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad_input("HOST:PORT is needed, such as 127.0.0.1:7420, or 0.0.0.0:7420 for all interfaces");
  std::uint64_t port = 0;
  if (!number(value.substr(colon + 1), 65535, port))
    return bad_input("a port from 0 (any free one) to 65535 is needed");
  settings.address = host == "localhost" ? "127.0.0.1" : host;
  settings.port = static_cast<std::uint16_t>(port);
  return {};
}

Status apply_state(Settings& settings, const std::string& value) {
  settings.state_directory = value;
  return {};
}

template <std::string Settings::*database>
Status apply_database(Settings& settings, const std::string& value) {
  settings.*database = value;
  return {};
}

Status apply_log_level(Settings& settings, const std::string& value) {
  static constexpr const char* kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), value) == std::end(kLevels)) {
    return bad_input("one of trace, debug, info, warn, error, off is needed");
  }
  settings.log_level = value;
  return {};
}

Status apply_log_file(Settings& settings, const std::string& value) {
  settings.log_file = value;
  return {};
}

Status apply_log_limit(Settings& settings, const std::string& value) {
  constexpr Bytes kLeast = Bytes{64} << 10;
  TRIMTAB_TRY(settings.log_limit, parse_bytes(value));
  return settings.log_limit >= kLeast ? Status() : bad_input("at least " + format_bytes(kLeast) + " are needed");
}

Status apply_port_file(Settings& settings, const std::string& value) {
  settings.port_file = value;
  return {};
}

Status apply_search_time(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(settings.search_time, parse_duration(value));
  return {};
}

template <Nanoseconds Settings::*field>
Status apply_retention(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(settings.*field, parse_duration(value));
  return {};
}

Status apply_search_evaluations(Settings& settings, const std::string& value) {
  return number(value, std::numeric_limits<std::uint64_t>::max(), settings.search_evaluations);
}

// Less would not hold the longest model that an agent sends.
constexpr Bytes kSmallestFrame = Bytes{8} << 20;
constexpr Bytes kLargestFrame = Bytes{256} << 20;
constexpr Bytes kLargestQueue = Bytes{4} << 30;

template <Bytes Settings::*field, Bytes high>
Status apply_bytes(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(const Bytes bytes, parse_bytes(value));
  if (bytes < kSmallestFrame || bytes > high) {
    return bad_input("from " + format_bytes(kSmallestFrame) + " to " + format_bytes(high) + " are needed");
  }
  settings.*field = bytes;
  return {};
}

template <std::uint32_t Settings::*field>
Status apply_limit(Settings& settings, const std::string& value) {
  std::uint64_t limit = 0;
  TRIMTAB_TRY_STATUS(number(value, 1'000'000, limit));
  if (limit == 0) return bad_input("a whole number from 1 is needed");
  settings.*field = static_cast<std::uint32_t>(limit);
  return {};
}

template <Bytes Budgets::*field>
Status apply_budget(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(const Bytes bytes, parse_bytes(value));
  if (bytes <= 0) return bad_input("a size above 0 is needed, such as 2GiB");
  settings.budgets.*field = bytes;
  return {};
}

// An empty one takes a tenth of that.
Status apply_costs_limit(Settings& settings, const std::string& value) {
  constexpr Bytes kLeast = Bytes{1} << 20;
  TRIMTAB_TRY(const Bytes bytes, parse_bytes(value));
  if (bytes < kLeast) return bad_input("a size of at least 1MiB is needed, such as 16GiB");
  settings.budgets.costs = bytes;
  return {};
}

Status apply_cpu_budget(Settings& settings, const std::string& value) {
  double cores = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), cores);
  const bool read = error == std::errc{} && end == value.data() + value.size();
  if (!read || !(cores > 0) || cores > 4096) return bad_input("a number of cores above 0 is needed, such as 1.5");
  settings.budgets.cores = cores;
  return {};
}

Status apply_node_timeout(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(const Nanoseconds timeout, parse_duration(value));
  // Agents are heard of every two seconds.
  if (timeout < std::chrono::seconds(5) || timeout > std::chrono::minutes(10))
    return bad_input("5s to 10min are needed");
  settings.node_timeout = timeout;
  return {};
}

Status apply_rendezvous_ports(Settings& settings, const std::string& value) {
  const auto dash = value.find('-');
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const bool read = dash != std::string::npos && number(value.substr(0, dash), 65'535, first).ok() &&
                    number(value.substr(dash + 1), 65'535, last).ok();
  if (!read || first < 1024 || last < first)
    return bad_input("FIRST-LAST is needed, of 1024 to 65535, such as 20000-29999");
  settings.rendezvous_ports = {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
  return {};
}

template <std::string net::CredentialFiles::*file>
Status apply_tls(Settings& settings, const std::string& value) {
  settings.tls.*file = value;
  return {};
}

Status apply_tokens(Settings& settings, const std::string& value) {
  settings.tokens = value;
  return {};
}

Status apply_otlp_endpoint(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(settings.otlp.endpoint, net::parse_otlp_endpoint(value));
  return {};
}

Status apply_otlp_period(Settings& settings, const std::string& value) {
  TRIMTAB_TRY(settings.otlp.period, net::parse_otlp_period(value));
  return {};
}

template <std::string net::OtlpSettings::*file>
Status apply_otlp_file(Settings& settings, const std::string& value) {
  settings.otlp.*file = value;
  return {};
}

Error unknown_key(std::string_view name, const std::string& place) {
  std::vector<std::string> known;
  for (const SettingKey& key : setting_keys()) known.emplace_back(key.name);
  return bad_input(place + ": unknown key '" + std::string(name) + "'; did you mean '" + nearest(name, known) + "'?");
}

// Nothing of an array, a table or a date.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.as_floating_point() == nullptr) return std::nullopt;
  std::ostringstream out;
  out << toml::node_view<const toml::node>(node);
  return out.str();
}

// What somebody may have written a password into stands in no message.
bool may_hold_secret(std::string_view name) {
  return name == "otlp_endpoint" || name.ends_with("_database");
}

}  // namespace

const std::vector<SettingKey>& setting_keys() {
  static const std::vector<SettingKey> kKeys = {
      {"listen", "127.0.0.1:7420",
       "HOST:PORT to listen on, beyond loopback only with TLS and tokens; port 0 takes any free one", apply_listen},
      {"state", "$XDG_STATE_HOME/trimtab", "directory of the state and the cost database", apply_state},
      {"cost_database", "costs.db in the state directory",
       "where costs are kept: a file, or postgresql://... that several coordinators share",
       apply_database<&Settings::cost_database>},
      {"state_database", "coordinator.db in the state directory",
       "where jobs, trials and their history are kept: a file, or postgresql://... of this coordinator alone",
       apply_database<&Settings::state_database>},
      {"log_level", "info", "trace, debug, info, warn, error or off", apply_log_level},
      {"log_file", "none: standard error", "where the log goes, bounded by log_limit", apply_log_file},
      {"log_limit", "16MiB", "size of log_file at which it starts anew; the one before is kept as FILE.1",
       apply_log_limit},
      {"port_file", "none", "file that the bound port is written to", apply_port_file},
      {"search_time", "5s", "the most time that one search takes", apply_search_time},
      {"search_evaluations", "200000", "the most plans that one search evaluates; 0 = no limit",
       apply_search_evaluations},
      {"max_frame", "8MiB", "the largest frame of an agent and body of a request",
       apply_bytes<&Settings::max_frame, kLargestFrame>},
      {"max_message_rate", "10000", "messages a second that are read of each agent; more wait on its side",
       apply_limit<&Settings::max_message_rate>},
      {"max_byte_rate", "32MiB", "bytes a second that are read of each agent; more wait on its side",
       apply_bytes<&Settings::max_byte_rate, kLargestQueue>},
      {"max_request_rate", "100",
       "requests a second of each person (by token, else by address) that are answered, five seconds' worth at once; "
       "more are told to come again (429)",
       apply_limit<&Settings::max_request_rate>},
      {"peer_queue", "32MiB", "what may wait for an agent that does not read; beyond it the connection ends",
       apply_bytes<&Settings::peer_queue, kLargestQueue>},
      {"max_connections", "4096", "connections at a time, of agents and people together",
       apply_limit<&Settings::max_connections>},
      {"max_jobs_of_tenant", "256", "jobs of one tenant that are not over", apply_limit<&Settings::max_jobs_of_tenant>},
      {"max_jobs", "4096", "jobs that are known, those that are over too: they are kept in memory",
       apply_limit<&Settings::max_jobs>},
      {"job_retention", "90d", "how long a run that is over is kept, with its trials, steps and events; 0s = for ever",
       apply_retention<&Settings::job_retention>},
      {"audit_retention", "365d", "how long entries of the audit log are kept; 0s = for ever",
       apply_retention<&Settings::audit_retention>},
      {"node_timeout", "10s", "how long a node may be silent before it is lost to its jobs", apply_node_timeout},
      {"rendezvous_ports", "20000-29999", "ports on the node of rank 0 at which a job's ranks on several nodes meet",
       apply_rendezvous_ports},
      {"memory_budget", "2GiB", "memory that the coordinator takes before it warns", apply_budget<&Budgets::memory>},
      {"cpu_budget", "2", "processor time, in cores over a minute, that the coordinator takes before it warns",
       apply_cpu_budget},
      {"disk_budget", "20GiB", "disk that the coordinator's databases take, where they are files, before it warns",
       apply_budget<&Budgets::disk>},
      {"costs_limit", "16GiB",
       "what the rows of the cost database take, where it is a file, before no more costs are stored",
       apply_costs_limit},
      {"tls_authority", "none", "the cluster's authority (PEM): whose certificates are accepted",
       apply_tls<&net::CredentialFiles::authority>},
      {"tls_certificate", "none", "the coordinator's certificate (PEM), made by 'trimtab cert'",
       apply_tls<&net::CredentialFiles::certificate>},
      {"tls_key", "none", "the key to it (PEM); nobody else may read it", apply_tls<&net::CredentialFiles::key>},
      {"tokens", "none", "file of the tokens that people and scripts show, made by 'trimtab token'", apply_tokens},
      {"otlp_endpoint", "none",
       "OpenTelemetry collector that metrics are posted to, such as http://127.0.0.1:4318/v1/metrics",
       apply_otlp_endpoint},
      {"otlp_period", "15s", "how often, at least 1s", apply_otlp_period},
      {"otlp_authority", "the system's", "who signs the collector's certificate (PEM)",
       apply_otlp_file<&net::OtlpSettings::authority>},
      {"otlp_token_file", "none", "the token that the collector asks for",
       apply_otlp_file<&net::OtlpSettings::token_file>}};
  return kKeys;
}

Status apply_setting(Settings& settings, std::string_view name, const std::string& value, const std::string& place) {
  for (const SettingKey& key : setting_keys()) {
    if (key.name != name) continue;
    const Status applied = key.apply(settings, value);
    if (applied.ok()) return {};
    const std::string said = may_hold_secret(name) ? "" : " = '" + value + "'";
    return bad_input(place + ": " + std::string(name) + said + ": " + applied.error().message);
  }
  return unknown_key(name, place);
}

Status check_settings(const Settings& settings) {
  if (settings.peer_queue < settings.max_frame) {
    return bad_input("peer_queue (" + format_bytes(settings.peer_queue) + ") must hold one frame of max_frame (" +
                     format_bytes(settings.max_frame) + ")");
  }
  TRIMTAB_TRY_STATUS(net::check_otlp(settings.otlp));
  const net::CredentialFiles& tls = settings.tls;
  if (!tls.empty() && (tls.authority.empty() || tls.certificate.empty() || tls.key.empty())) {
    return bad_input("TLS needs tls_authority, tls_certificate and tls_key, but not all three are given");
  }
  if (net::is_loopback_host(settings.address)) return {};
  if (tls.empty()) {
    return bad_input("listening on " + settings.address +
                     " needs TLS, because others can reach it: give tls_authority, tls_certificate and tls_key "
                     "('trimtab cert init --dir CA_DIRECTORY', then " +
                     net::issue_command({"NAME", net::CertificateKind::kCoordinator}) +
                     " make them), or listen on 127.0.0.1");
  }
  if (settings.tokens.empty()) {
    return bad_input("listening on " + settings.address +
                     " needs a file of tokens, so that not everybody may everything: 'trimtab token add NAME "
                     "--role operate --tokens FILE' makes it, tokens names it");
  }
  return {};
}

Status apply_toml(Settings& settings, std::string_view text, const std::string& source) {
  TRIMTAB_TRY_STATUS(check_toml_keys(text, source));
  try {
    const toml::table table = toml::parse(text, source);
    for (const auto& [key, node] : table) {
      const std::string place = source + ":" + std::to_string(node.source().begin.line);
      const auto value = text_of(node);
      const auto is_key = [&](const SettingKey& one) { return one.name == key.str(); };
      if (!value && std::any_of(setting_keys().begin(), setting_keys().end(), is_key)) {
        return bad_input(place + ": " + std::string(key.str()) + ": a text, a number, true or false is needed");
      }
      TRIMTAB_TRY_STATUS(apply_setting(settings, key.str(), value.value_or(""), place));
    }
  } catch (const toml::parse_error& error) {
    return not_toml(source, error.source().begin.line, error.description());
  }
  return {};
}

Status apply_environment(Settings& settings,
                         const std::function<std::optional<std::string>(const std::string&)>& lookup) {
  for (const SettingKey& key : setting_keys()) {
    std::string variable = "TRIMTAB_" + std::string(key.name);
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (const auto value = lookup(variable)) {
      TRIMTAB_TRY_STATUS(apply_setting(settings, key.name, *value, "environment variable " + variable));
    }
  }
  return {};
}

}  // namespace trimtab::coordinator
