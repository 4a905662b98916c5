#include "agent/configuration.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>
#include <vector>

#include "net/certificates.hpp"
#include "net/host_text.hpp"
#include "net/loopback_host.hpp"
#include "net/tokens.hpp"
#include "schema/nearest.hpp"
#include "schema/state_directory.hpp"
#include "schema/toml_nesting.hpp"

namespace trimtab::agent {

namespace {

// The longest message that agent and coordinator send each other fits.
constexpr Bytes kSmallestFrame = Bytes{8} << 20;

template <typename Integer>
Status set_integer(Integer& field, const std::string& text, Integer low, Integer high) {
  Integer value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return bad_input("needs a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                     ", but it is '" + text + "'");
  }
  field = value;
  return {};
}

Status set_bytes(Bytes& field, const std::string& text, Bytes low, Bytes high = std::numeric_limits<Bytes>::max()) {
  TRIMTAB_TRY(const Bytes bytes, parse_bytes(text));
  if (bytes < low) return bad_input("must be at least " + format_bytes(low) + ", but it is " + text);
  if (bytes > high) return bad_input("must be at most " + format_bytes(high) + ", but it is " + text);
  field = bytes;
  return {};
}

Status set_path(std::string& field, const std::string& text) {
  if (text.empty()) return bad_input("needs a path, but it is empty");
  std::error_code failure;
  field = std::filesystem::absolute(text, failure).lexically_normal().string();
  if (failure) return bad_input("cannot make '" + text + "' absolute: " + failure.message());
  return {};
}

Status set_coordinator(Configuration& c, const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad_input("needs HOST:PORT, but it is '" + text + "'");
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  TRIMTAB_TRY_STATUS(set_integer<std::uint16_t>(c.coordinator_port, text.substr(colon + 1), 1, 65535));
  c.coordinator_host = host;
  return {};
}

Status set_node(Configuration& c, const std::string& text) {
  if (text.empty() || text.size() > 255) return bad_input("needs a name of 1 to 255 bytes, but it is '" + text + "'");
  c.node = text;
  return {};
}

Status set_log_level(Configuration& c, const std::string& text) {
  constexpr std::array<const char*, 6> kLevels{"trace", "debug", "info", "warn", "error", "off"};
  if (std::ranges::find(kLevels, text) == kLevels.end()) {
    return bad_input("must be trace, debug, info, warn, error or off, but it is '" + text + "'");
  }
  c.log_level = text;
  return {};
}

Status set_grace(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(const Nanoseconds grace, parse_duration(text));
  if (grace.count() < 0 || grace > std::chrono::minutes(10)) return bad_input("must be 0s to 10min, but it is " + text);
  c.kill_grace = grace;
  return {};
}

Status set_silence(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(const Nanoseconds limit, parse_duration(text));
  // The coordinator answers a heartbeat every two seconds.
  if (limit < std::chrono::seconds(6) || limit > std::chrono::minutes(10)) {
    return bad_input("must be 6s to 10min, but it is " + text);
  }
  c.silence_limit = limit;
  return {};
}

Status set_period(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(const Nanoseconds period, parse_duration(text));
  const bool off = period.count() == 0;
  if (!off && (period < std::chrono::milliseconds(100) || period > std::chrono::hours(1))) {
    return bad_input("must be 0s (off) or 100ms to 1h, but it is " + text);
  }
  c.sample_period = period;
  return {};
}

Status set_retention(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(c.job_retention, parse_duration(text));
  return {};
}

Status set_metrics_address(Configuration& c, const std::string& text) {
  if (text.empty()) return bad_input("needs an IP address such as 0.0.0.0, but it is empty");
  c.metrics_address = text;
  return {};
}

Status set_metrics_jobs(Configuration& c, const std::string& text) {
  if (text != "opaque" && text != "named") return bad_input("must be opaque or named, but it is " + text);
  c.metrics_name_jobs = text == "named";
  return {};
}

Status set_tenant(Configuration& c, const std::string& text) {
  if (text != net::kEveryTenant && !net::is_tenant_name(text)) {
    return bad_input(
        "needs a tenant's name, 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', or '*' for all, but it is '" + text +
        "'");
  }
  c.tenant = text;
  return {};
}

Status set_address(Configuration& c, const std::string& text) {
  if (!net::is_host_text(text)) return bad_input("needs a host's name or an IP address, but it is '" + text + "'");
  c.address = text;
  return {};
}

Status set_nvml(Configuration& c, const std::string& text) {
  if (text.empty()) return bad_input("needs a library's name or path, but it is empty");
  c.nvml = text;
  return {};
}

Status set_otlp_endpoint(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(c.otlp.endpoint, net::parse_otlp_endpoint(text));
  return {};
}

Status set_otlp_period(Configuration& c, const std::string& text) {
  TRIMTAB_TRY(c.otlp.period, net::parse_otlp_period(text));
  return {};
}

Status set_disk_budget(Configuration& c, const std::string& text) {
  Bytes budget = 0;
  TRIMTAB_TRY_STATUS(set_bytes(budget, text, Bytes{1} << 20));
  c.disk_budget = budget;
  return {};
}

Status set_memory_budget(Configuration& c, const std::string& text) {
  Bytes budget = 0;
  TRIMTAB_TRY_STATUS(set_bytes(budget, text, Bytes{1} << 20));
  c.memory_budget = budget;
  return {};
}

Status set_cpu_budget(Configuration& c, const std::string& text) {
  double cores = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cores);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || !(cores > 0) || cores > 4096) {
    return bad_input("needs a number of cores above 0 and up to 4096, such as 0.5, but it is '" + text + "'");
  }
  c.cpu_budget = cores;
  return {};
}

Status set_switch(bool& field, const std::string& text) {
  if (text != "true" && text != "false") return bad_input("must be true or false, but it is '" + text + "'");
  field = text == "true";
  return {};
}

using C = Configuration;
using Text = const std::string&;

constexpr std::array kKeys{
    ConfigurationKey{"coordinator", "HOST:PORT", "the coordinator to connect to", set_coordinator},
    ConfigurationKey{"socket", "PATH", "the Unix socket for training processes",
                     [](C& c, Text text) { return set_path(c.socket, text); }},
    ConfigurationKey{"state", "DIR", "where the agent keeps its databases and the jobs' scratch",
                     [](C& c, Text text) { return set_path(c.state, text); }},
    ConfigurationKey{"node", "NAME", "this node's name, unique in the cluster", set_node},
    ConfigurationKey{
        "tenant", "NAME",
        "whose jobs alone run here, '*' everybody's (default: its certificate's or token's, else everybody's)",
        set_tenant},
    ConfigurationKey{"run_as_root", "", "start an agent of root that serves every tenant: all their jobs are root here",
                     [](C& c, Text text) { return set_switch(c.run_as_root, text); }},
    ConfigurationKey{"address", "HOST",
                     "where other nodes' ranks reach those here (default: as the coordinator sees it)", set_address},
    ConfigurationKey{"devices", "N", "how many devices (ranks) this node offers",
                     [](C& c, Text text) { return set_integer<std::uint32_t>(c.devices, text, 1, 1024); }},
    ConfigurationKey{"memory", "BYTES", "memory of one device, such as 700MiB",
                     [](C& c, Text text) { return set_bytes(c.memory, text, 1); }},
    ConfigurationKey{"log_level", "LEVEL", "trace, debug, info, warn, error or off", set_log_level},
    ConfigurationKey{"log_file", "PATH", "where the log goes, bounded by log_limit (default: standard error)",
                     [](C& c, Text text) { return set_path(c.log_file, text); }},
    ConfigurationKey{"log_limit", "BYTES", "size of log_file at which it starts anew; the one before is kept as PATH.1",
                     [](C& c, Text text) { return set_bytes(c.log_limit, text, Bytes{64} << 10); }},
    ConfigurationKey{"metrics_address", "IP", "address of the metrics (default 127.0.0.1), beyond loopback under TLS",
                     set_metrics_address},
    ConfigurationKey{"metrics_port", "PORT", "port of the Prometheus metrics; 0 = off",
                     [](C& c, Text text) { return set_integer<std::uint16_t>(c.metrics_port, text, 0, 65535); }},
    ConfigurationKey{"metrics_jobs", "WHICH",
                     "jobs on the page of metrics on loopback, which every user can read: opaque (default) or named",
                     set_metrics_jobs},
    ConfigurationKey{"inject", "PATH", "libtrimtab-inject.so",
                     [](C& c, Text text) { return set_path(c.inject_library, text); }},
    ConfigurationKey{"spool_limit", "BYTES",
                     "costs kept on disk for an absent coordinator; beyond it passive ones wait in memory",
                     [](C& c, Text text) { return set_bytes(c.spool_limit, text, Bytes{1} << 20); }},
    ConfigurationKey{"disk_budget", "BYTES",
                     "disk that its databases, logs and jobs' scratch take before it warns; at least twice spool_limit",
                     set_disk_budget},
    ConfigurationKey{"memory_budget", "BYTES",
                     "memory that it takes before it warns (default: 64MiB, and 1GiB while ranks run)",
                     set_memory_budget},
    ConfigurationKey{
        "cpu_budget", "CORES",
        "processor time, over a minute, that it takes before it warns (default: 0.01, and 1 while ranks run)",
        set_cpu_budget},
    ConfigurationKey{"job_retention", "TIME",
                     "how long the directory of a job that is over is kept, such as 30d; 0s = for ever", set_retention},
    ConfigurationKey{"rank_log_limit", "BYTES", "size of a rank's log file at which it starts anew",
                     [](C& c, Text text) { return set_bytes(c.rank_log_limit, text, Bytes{64} << 10); }},
    ConfigurationKey{"max_frame", "BYTES", "the largest frame of the coordinator",
                     [](C& c, Text text) { return set_bytes(c.max_frame, text, kSmallestFrame, Bytes{256} << 20); }},
    ConfigurationKey{
        "max_message_rate", "N",
        "messages a second that are read of the coordinator and of each process; more wait on their side",
        [](C& c, Text text) { return set_integer<std::uint32_t>(c.max_message_rate, text, 1, 1'000'000); }},
    ConfigurationKey{"max_byte_rate", "BYTES",
                     "bytes a second that are read of the coordinator and of each process; more wait on their side",
                     [](C& c, Text text) { return set_bytes(c.max_byte_rate, text, kSmallestFrame, Bytes{4} << 30); }},
    ConfigurationKey{"link_queue", "BYTES", "what may wait for a slow coordinator in memory; costs wait in the spool",
                     [](C& c, Text text) { return set_bytes(c.link_queue, text, kSmallestFrame, Bytes{1} << 30); }},
    ConfigurationKey{"ring_memory", "BYTES", "what all record rings that are read may take; more are refused",
                     [](C& c, Text text) { return set_bytes(c.ring_memory, text, Bytes{1} << 20); }},
    ConfigurationKey{"ring_memory_of_process", "BYTES", "what the record rings of one process may take",
                     [](C& c, Text text) { return set_bytes(c.ring_memory_of_process, text, Bytes{64} << 10); }},
    ConfigurationKey{"silence_limit", "TIME", "how long the coordinator may be silent before the link is made anew",
                     set_silence},
    ConfigurationKey{"kill_grace", "TIME", "from SIGTERM to SIGKILL, such as 5s", set_grace},
    ConfigurationKey{"sample_period", "TIME", "how often the machine's metrics are read, such as 5s; 0s = off",
                     set_period},
    ConfigurationKey{"nvml", "LIBRARY", "NVIDIA's management library (default libnvidia-ml.so.1)", set_nvml},
    ConfigurationKey{"tls_authority", "PATH", "the cluster's authority (PEM): the coordinator's certificate is its",
                     [](C& c, Text text) { return set_path(c.tls.authority, text); }},
    ConfigurationKey{"tls_certificate", "PATH", "this node's certificate (PEM), made by 'trimtab cert'",
                     [](C& c, Text text) { return set_path(c.tls.certificate, text); }},
    ConfigurationKey{"tls_key", "PATH", "the key to it (PEM); nobody else may read it",
                     [](C& c, Text text) { return set_path(c.tls.key, text); }},
    ConfigurationKey{"token_file", "PATH", "the agent's token, where the coordinator asks for one without TLS",
                     [](C& c, Text text) { return set_path(c.token_file, text); }},
    ConfigurationKey{"otlp_endpoint", "URL",
                     "OpenTelemetry collector that metrics are posted to, such as http://127.0.0.1:4318/v1/metrics",
                     set_otlp_endpoint},
    ConfigurationKey{"otlp_period", "TIME", "how often, at least 1s", set_otlp_period},
    ConfigurationKey{"otlp_authority", "PATH", "who signs the collector's certificate (PEM); default the system's",
                     [](C& c, Text text) { return set_path(c.otlp.authority, text); }},
    ConfigurationKey{"otlp_token_file", "PATH", "the token that the collector asks for",
                     [](C& c, Text text) { return set_path(c.otlp.token_file, text); }},
    ConfigurationKey{"stop_ranks_on_exit", "", "end the ranks when the agent ends",
                     [](C& c, Text text) { return set_switch(c.stop_ranks_on_exit, text); }},
};

const ConfigurationKey* find_key(const std::string& name) {
  const auto* found = std::ranges::find_if(kKeys, [&](const ConfigurationKey& key) { return name == key.name; });
  return found == kKeys.end() ? nullptr : found;
}

Error unknown_key(const std::string& where, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& key : kKeys) known.emplace_back(key.name);
  return bad_input(where + ": there is no key '" + name + "'. Did you mean '" + nearest(name, known) + "'?");
}

std::optional<std::string> text_of(const toml::node& value) {
  if (const auto* text = value.as_string()) return text->get();
  if (const auto* integer = value.as_integer()) return std::to_string(integer->get());
  if (const auto* number = value.as_floating_point()) {
    std::array<char, 32> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number->get());
    if (error == std::errc{}) return std::string(digits.data(), end);
  }
  if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

Status apply_table(Configuration& configuration, const std::string& file, const toml::table& table) {
  for (const auto& [name, value] : table) {
    const std::string text_name(name.str());
    const std::string where = file + ":" + std::to_string(name.source().begin.line);
    const auto* key = find_key(text_name);
    if (key == nullptr) return unknown_key(where, text_name);
    const auto text = text_of(value);
    if (!text) return bad_input(where + ": " + text_name + " must be a text, a number, true or false");
    if (auto status = key->set(configuration, *text); !status.ok())
      return wrap(where + ": " + text_name, status.error());
  }
  return {};
}

Status apply_file(Configuration& configuration, const ConfigurationFile& file) {
  TRIMTAB_TRY_STATUS(check_toml_keys(file.text, file.name));
  try {
    return apply_table(configuration, file.name, toml::parse(file.text, file.name));
  } catch (const toml::parse_error& failure) {
    return not_toml(file.name, failure.source().begin.line, failure.description());
  }
}

std::string variable_of(const ConfigurationKey& key) {
  std::string name = std::string("TRIMTAB_") + key.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string value_or(const std::map<std::string, std::string>& environment, const std::string& name,
                     const std::string& otherwise) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? otherwise : found->second;
}

}  // namespace

std::span<const ConfigurationKey> configuration_keys() {
  return kKeys;
}

Result<Configuration> configure(Configuration defaults, const std::optional<ConfigurationFile>& file,
                                const std::map<std::string, std::string>& environment,
                                const std::map<std::string, std::string>& flags) {
  Configuration configuration = std::move(defaults);
  if (file) TRIMTAB_TRY_STATUS(apply_file(configuration, *file));
  for (const auto& key : kKeys) {
    const std::string variable = variable_of(key);
    const auto found = environment.find(variable);
    if (found == environment.end()) continue;
    if (auto status = key.set(configuration, found->second); !status.ok()) return wrap(variable, status.error());
  }
  for (const auto& [name, text] : flags) {
    const auto* key = find_key(name);
    if (key == nullptr) return unknown_key("command line", name);
    if (auto status = key->set(configuration, text); !status.ok()) return wrap("--" + flag_of(name), status.error());
  }
  const bool has_place = !configuration.socket.empty() || configuration.state.empty();
  if (!has_place) configuration.socket = configuration.state + "/agent.sock";
  return configuration;
}

Bytes allowed_disk(const Configuration& configuration) {
  constexpr Bytes kUsual = Bytes{2} << 30;
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  const Bytes spool = configuration.spool_limit;
  return configuration.disk_budget.value_or(spool > kMost / 4 ? kMost : std::max(kUsual, 4 * spool));
}

std::string certificate_command(const Configuration& configuration, const std::vector<std::string>& hosts) {
  net::PeerIdentity owner{configuration.node, net::CertificateKind::kNode};
  if (!configuration.tenant.empty()) owner.tenant = configuration.tenant;
  return net::issue_command(owner, hosts);
}

Status check_configuration(const Configuration& configuration) {
  if (configuration.disk_budget && *configuration.disk_budget / 2 < configuration.spool_limit) {
    return bad_input("disk_budget = " + format_bytes(*configuration.disk_budget) +
                     " is less than the spool alone may take, twice spool_limit (" +
                     format_bytes(configuration.spool_limit) + "): raise disk_budget, or lower spool_limit");
  }
  TRIMTAB_TRY_STATUS(net::check_otlp(configuration.otlp));
  const net::CredentialFiles& tls = configuration.tls;
  if (!tls.empty() && (tls.authority.empty() || tls.certificate.empty() || tls.key.empty())) {
    return bad_input("TLS needs tls_authority, tls_certificate and tls_key, but not all three are given");
  }
  if (!net::is_loopback_host(configuration.metrics_address) && configuration.metrics_port != 0 && tls.empty()) {
    return bad_input("metrics_address = \"" + configuration.metrics_address +
                     "\" shows metrics to other machines and needs TLS: give tls_authority, tls_certificate and "
                     "tls_key (" +
                     certificate_command(configuration, {"HOST"}) + " makes them), or leave it at 127.0.0.1");
  }
  const std::string& host = configuration.coordinator_host;
  if (net::is_loopback_host(host) || !tls.empty()) return {};
  return bad_input("the coordinator " + host +
                   " is another machine and needs TLS: give tls_authority, tls_certificate and tls_key (" +
                   certificate_command(configuration) + " makes them)");
}

Status check_state(const Configuration& configuration) {
  if (!configuration.state.empty()) return {};
  // Then default_configuration() found none.
  return user_state_directory("", "").error();
}

Status check_user(const Configuration& configuration, bool is_root) {
  const bool of_one = !configuration.tenant.empty() && configuration.tenant != net::kEveryTenant;
  if (!is_root || of_one || configuration.run_as_root) return {};
  return bad_input(
      "this agent runs as root and so would every job that is handed in, but neither tenant nor run_as_root = true is "
      "set: run an agent as each user whose jobs are to run here (trimtab-agent@USER), name the one tenant whose jobs "
      "may be root's (tenant), or set run_as_root = true where every tenant may be root on this node");
}

Configuration default_configuration(bool system, const std::map<std::string, std::string>& environment,
                                    const std::string& host_name) {
  Configuration configuration;
  configuration.node = host_name;
  if (system) {
    configuration.state = "/var/lib/trimtab/agent";
    configuration.socket = "/run/trimtab/agent.sock";
    return configuration;
  }
  const auto state =
      user_state_directory(value_or(environment, "XDG_STATE_HOME", ""), value_or(environment, "HOME", ""));
  if (state.ok()) configuration.state = *state + "/agent";
  const std::string runtime = value_or(environment, "XDG_RUNTIME_DIR", "");
  if (!runtime.empty()) configuration.socket = runtime + "/trimtab/agent.sock";
  if (runtime.empty() && state.ok()) configuration.socket = *state + "/agent.sock";
  return configuration;
}

}  // namespace trimtab::agent
