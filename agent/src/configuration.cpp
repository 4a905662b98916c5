#include "agent/configuration.hpp"

#include <algorithm>
#include <tuple>

#include "net/host_text.hpp"
#include "net/tokens.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::agent {

namespace {

// The longest message that agent and coordinator send each other fits.
constexpr Bytes kSmallestFrame = Bytes{8} << 20;

using C = Configuration;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kMetricsJobs[] = {"opaque", "named"};
// The coordinator answers a heartbeat every two seconds.
constexpr seconds kAnswers(6);

bool is_node_name(std::string_view name) {
  return !name.empty() && name.size() <= 255;
}

bool is_served_tenant(std::string_view name) {
  return name == net::kEveryTenant || net::is_tenant_name(name);
}

bool is_word(std::string_view text) {
  return !text.empty();
}

bool is_count_of_cores(double cores) {
  return cores > 0 && cores <= 4096;
}

std::vector<Setting<C>> place_settings() {
  return {
      {"coordinator", host_port_setting(1), [](C& c) { return std::tie(c.coordinator_host, c.coordinator_port); },
       "the coordinator to connect to", "127.0.0.1:7420"},
      {"socket", path_setting(), &C::socket, "the Unix socket for training processes",
       "/run/trimtab/agent.sock of root's, else $XDG_RUNTIME_DIR/trimtab/agent.sock, else where the state is"},
      {"state", path_setting("DIR"), &C::state,
       "its databases and the jobs' scratch. Needed where neither XDG_STATE_HOME nor HOME is set",
       "/var/lib/trimtab/agent of root's, else $XDG_STATE_HOME/trimtab/agent, else ~/.local/state/trimtab/agent"},
      {"node", text_setting("NAME", "a name of 1 to 255 bytes", is_node_name), &C::node,
       "this node's name, unique in the cluster", "the host's name"},
      {"tenant",
       text_setting("NAME", "a tenant's name, 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', or '*' for all",
                    is_served_tenant),
       &C::tenant,
       "whose jobs alone run here, '*' = everybody's. Needed where several tenants hand in jobs and the certificate or "
       "token is for '*'",
       "its certificate's or token's, else everybody's"},
      {"run_as_root", flag_setting(), &C::run_as_root,
       "start an agent of root that serves every tenant: all their jobs are root on this node"},
      {"address", text_setting("HOST", "a host's name or an IP address", net::is_host_text), &C::address,
       "where other nodes' ranks reach those of this node", "as the coordinator sees the agent's connection"},
      {"devices", integer_setting(1, 1024), &C::devices, "how many devices (ranks) this node offers"},
      {"memory", size_setting(1), &C::memory, "memory of one device",
       "the GPU's, or this machine's divided by the devices"},
      {"log_level", log_level_setting(), &C::log_level, "what is logged"},
      {"log_file", path_setting(), &C::log_file, "where the log goes, for an agent whose standard error nobody keeps",
       "standard error"},
      {"log_limit", size_setting(Bytes{64} << 10), &C::log_limit,
       "size of log_file at which it starts anew. The one before is kept as PATH.1"},
      {"metrics_address", text_setting("IP", "an IP address such as 0.0.0.0", is_word), &C::metrics_address,
       "address of the Prometheus metrics. Beyond loopback under TLS, for people's certificates"},
      {"metrics_port", integer_setting(0, 65535), &C::metrics_port, "their port. 0 = off"},
      {"metrics_jobs", choice_setting(kMetricsJobs), &C::metrics_name_jobs,
       "whether jobs on the page of metrics on loopback, which every user of the machine can read, have their names"},
      {"inject", path_setting(), &C::inject_library, "libtrimtab-inject.so",
       "../lib or ../lib/trimtab of the program's directory"}};
}

std::vector<Setting<C>> limit_settings() {
  return {
      {"spool_limit", size_setting(Bytes{1} << 20), &C::spool_limit,
       "costs kept on disk for an absent coordinator. Beyond it passive costs wait in memory, merged. Benchmarks' "
       "costs do so beyond twice that"},
      {"disk_budget", size_setting(Bytes{1} << 20), &C::disk_budget,
       "disk that the agent takes before it warns and refuses nothing: databases, logs of ranks, its own files in "
       "jobs' directories, not snapshots or checkpoints. At least twice spool_limit",
       "2GiB, or four times spool_limit where that is more"},
      {"memory_budget", size_setting(Bytes{1} << 20), &C::memory_budget,
       "memory that the agent takes before it warns. Nothing is refused for it: what rings, frames and the spool may "
       "take has limits of its own",
       "64MiB, and 1GiB while ranks run"},
      {"cpu_budget",
       number_setting("CORES", "a number of cores above 0 and up to 4096, such as 0.5", is_count_of_cores),
       &C::cpu_budget, "processor time, over a minute, that the agent takes before it warns",
       "0.01, and 1 while ranks run"},
      {"job_retention", time_setting(), &C::job_retention,
       "how long the directory of a job that is over is kept after its last change. 0s = for ever"},
      {"rank_log_limit", size_setting(Bytes{64} << 10), &C::rank_log_limit,
       "size of a rank's log file at which it starts anew"},
      {"checkpoint_copy_limit", size_setting(1), &C::checkpoint_copy_limit,
       "size of a job's checkpoint beyond which no trial copies it, unless the copy shares its blocks. The copy also "
       "leaves a twentieth of the state's file system free"},
      {"max_frame", size_setting(kSmallestFrame, Bytes{256} << 20), &C::max_frame,
       "the largest frame of the coordinator"},
      {"max_message_rate", integer_setting(1, 1'000'000), &C::max_message_rate,
       "messages a second that are read of the coordinator, and of each process on the socket. More wait on their "
       "side"},
      {"max_byte_rate", size_setting(kSmallestFrame, Bytes{4} << 30), &C::max_byte_rate,
       "bytes a second that are read of them, a second's worth at once. max_frame where that is more"},
      {"link_queue", size_setting(kSmallestFrame, Bytes{1} << 30), &C::link_queue,
       "what may wait in memory for a slow coordinator. Costs wait in the spool"},
      {"ring_memory", size_setting(Bytes{1} << 20), &C::ring_memory,
       "memory that all record rings that are read may take. The processes of further ones are not measured"},
      {"ring_memory_of_process", size_setting(Bytes{64} << 10), &C::ring_memory_of_process,
       "the same of one process: the largest TRIMTAB_RING_SLOTS fits"},
      {"silence_limit", time_setting(kAnswers, minutes(10)), &C::silence_limit,
       "how long the coordinator may be silent, while it takes nothing either, before the link is made anew"},
      {"kill_grace", time_setting(seconds(0), minutes(10)), &C::kill_grace, "from SIGTERM to SIGKILL"},
      {"sample_period", time_or_off_setting(milliseconds(100), std::chrono::hours(1)), &C::sample_period,
       "how often the machine's metrics are read. 0s = off"},
      {"nvml", text_setting("LIBRARY", "a library's name or path", is_word), &C::nvml,
       "NVIDIA's management library. trimtab doctor reads TRIMTAB_NVML, too"}};
}

std::vector<Setting<C>> peer_settings() {
  using net::CredentialFiles;
  using net::OtlpSettings;
  return {{"tls_authority", path_setting(), within(&C::tls, &CredentialFiles::authority),
           "PEM file: who signs the coordinator's certificate. Needed where the coordinator is another machine"},
          {"tls_certificate", path_setting(), within(&C::tls, &CredentialFiles::certificate),
           "PEM file: this node's certificate, made by 'trimtab cert'"},
          {"tls_key", path_setting(), within(&C::tls, &CredentialFiles::key),
           "PEM file: the key to it, which nobody else may read"},
          {"token_file", path_setting(), &C::token_file,
           "the agent's token, where the coordinator asks for one without TLS. Read at each connection"},
          {"coordinator_user", text_setting("USER", "a user's name or ID", net::is_user_text), &C::coordinator_user,
           "as whom the coordinator may run beside root and the agent's own user, where it is on this machine without "
           "TLS. An agent obeys nobody else's listener"},
          {"otlp_endpoint", parsed_setting("URL", "http(s)://HOST:PORT/PATH", net::parse_otlp_endpoint),
           within(&C::otlp, &OtlpSettings::endpoint),
           "OpenTelemetry collector that metrics are posted to. PATH is /v1/metrics where it is left out. http:// to "
           "this machine alone"},
          {"otlp_period", time_setting(seconds(1), std::chrono::hours(24)), within(&C::otlp, &OtlpSettings::period),
           "how often metrics are posted"},
          {"otlp_authority", path_setting(), within(&C::otlp, &OtlpSettings::authority),
           "PEM file: who signs the collector's certificate, for https://", "the system's authorities"},
          {"otlp_token_file", path_setting(), within(&C::otlp, &OtlpSettings::token_file),
           "the token that the collector asks for (Authorization: Bearer), read for each post"},
          {"stop_ranks_on_exit", flag_setting(), &C::stop_ranks_on_exit, "end the ranks when the agent ends"}};
}

std::string value_or(const std::map<std::string, std::string>& environment, const std::string& name,
                     const std::string& otherwise) {
  const auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? otherwise : found->second;
}

}  // namespace

const SettingTable<Configuration>& agent_settings() {
  static const SettingTable<Configuration> kTable(SettingSources::kFileEnvironmentFlags,
                                                  {place_settings(), limit_settings(), peer_settings()});
  return kTable;
}

Result<Configuration> configure(Configuration defaults, const std::optional<ConfigurationFile>& file,
                                const std::map<std::string, std::string>& environment,
                                const std::map<std::string, std::string>& flags) {
  Configuration configuration = std::move(defaults);
  const auto lookup = [&](const std::string& variable) {
    const auto found = environment.find(variable);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  if (file) TRIMTAB_TRY_STATUS(agent_settings().set_from_toml(configuration, file->text, file->name));
  TRIMTAB_TRY_STATUS(agent_settings().set_from_environment(configuration, lookup));
  for (const auto& [name, text] : flags) {
    TRIMTAB_TRY_STATUS(agent_settings().set_from_flag(configuration, name, text));
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
    return bad_input(
        "metrics_address = \"" + configuration.metrics_address +
        "\" shows metrics to other machines and needs TLS: give tls_authority, tls_certificate and tls_key (" +
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
