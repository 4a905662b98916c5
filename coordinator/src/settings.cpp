#include "coordinator/settings.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>

#include "accounts.hpp"
#include "net/certificates.hpp"
#include "net/host_text.hpp"

namespace trimtab::coordinator {
namespace {

using S = Settings;
using std::chrono::minutes;
using std::chrono::seconds;

// Less would not hold the longest model that an agent sends.
constexpr Bytes kSmallestFrame = Bytes{8} << 20;
constexpr Bytes kLargestFrame = Bytes{256} << 20;
constexpr Bytes kLargestQueue = Bytes{4} << 30;
// Agents are heard of every two seconds.
constexpr seconds kHeardOf(5);

bool is_count_of_cores(double cores) {
  return cores > 0 && cores <= 4096;
}

SettingKind<HostPort> listen_setting() {
  SettingKind<HostPort> kind = host_port_setting(0);
  kind.read = [read = kind.read](const GivenSetting& given) {
    Result<HostPort> place = read(given);
    if (place.ok() && place->first == "localhost") place->first = "127.0.0.1";
    return place;
  };
  return kind;
}

SettingKind<PortRange> ports_setting() {
  const auto parse = [](const std::string& text) -> Result<PortRange> {
    PortRange ports;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, ports.first);
    const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
    const auto last = std::from_chars(dash ? first.ptr + 1 : end, end, ports.last);
    if (last.ec == std::errc() && last.ptr == end && ports.first >= 1024 && ports.last >= ports.first) return ports;
    return bad_input("expected FIRST-LAST of 1024 to 65535, such as 20000-29999, found '" + text + "'");
  };
  return parsed_setting<PortRange>("FIRST-LAST", "FIRST-LAST of 1024 to 65535", parse);
}

SettingKind<std::int64_t> count() {
  return integer_setting(1, 1'000'000);
}

std::vector<Setting<S>> place_settings() {
  return {
      {"listen", listen_setting(), [](S& s) { return std::tie(s.address, s.port); },
       "where agents and people connect, beyond loopback only with TLS and tokens. Port 0 takes any free one",
       "127.0.0.1:7420"},
      {"state", text_setting("DIR", "a path", [](std::string_view text) { return !text.empty(); }), &S::state_directory,
       "the state and the cost database, where those are files. Needed where neither XDG_STATE_HOME nor HOME is set",
       "$XDG_STATE_HOME/trimtab, else ~/.local/state/trimtab"},
      {"cost_database", text_setting("PLACE"), &S::cost_database,
       "where costs are kept: a file, or postgresql://... that several coordinators share",
       "costs.db in the state directory"},
      {"state_database", text_setting("PLACE"), &S::state_database,
       "where jobs, trials and their history are kept: a file, or postgresql://... of this coordinator alone",
       "coordinator.db in the state directory"},
      {"log_level", log_level_setting(), &S::log_level, "what is logged"},
      {"log_file", text_setting("PATH"), &S::log_file,
       "where the log goes, for a daemon whose standard error nobody keeps", "standard error"},
      {"log_limit", size_setting(Bytes{64} << 10), &S::log_limit,
       "size of log_file at which it starts anew. The one before is kept as PATH.1"},
      {"port_file", text_setting("PATH"), &S::port_file, "file that the bound port is written to"},
      {"search_time", time_setting(), &S::search_time, "the most time that one search takes"},
      {"search_evaluations", integer_setting(0, std::numeric_limits<std::int64_t>::max()), &S::search_evaluations,
       "the most plans that one search evaluates, choices of memory switches counted too. 0 = no limit"}};
}

std::vector<Setting<S>> limit_settings() {
  return {
      {"max_frame", size_setting(kSmallestFrame, kLargestFrame), &S::max_frame,
       "the largest frame of an agent (1 MiB until its hello is accepted), and the largest body of a request"},
      {"max_message_rate", count(), &S::max_message_rate,
       "messages a second that are read of each agent. More wait on its side, and nothing is lost"},
      {"max_byte_rate", size_setting(kSmallestFrame, kLargestQueue), &S::max_byte_rate,
       "bytes a second that are read of each agent, a second's worth at once. max_frame where that is more"},
      {"max_request_rate", count(), &S::max_request_rate,
       "requests a second of each person (by token, else by address) that are answered, five seconds' worth at once. "
       "More get 429 with Retry-After"},
      {"peer_queue", size_setting(kSmallestFrame, kLargestQueue), &S::peer_queue,
       "what may wait for an agent that does not read. Beyond it the connection ends, and the agent comes again"},
      {"max_connections", count(), &S::max_connections,
       "connections at a time, of agents and people together. Beyond it a new one takes the place of the one that has "
       "been silent for longest"},
      {"max_nodes_of_token", count(), &S::max_nodes_of_token,
       "names of nodes that one agent's token may bring. A further one is refused. Under TLS a certificate names its "
       "node"},
      {"max_jobs_of_tenant", count(), &S::max_jobs_of_tenant,
       "jobs of one tenant that are not over. A further one is refused (409). Without tokens everybody is one tenant"},
      {"max_jobs", count(), &S::max_jobs,
       "jobs that are known and so in memory, also those that are over (until job_retention). A further name is "
       "refused (409). One tenant may have three quarters of them. Its oldest that are over go before their time where "
       "it comes near that"},
      {"job_retention", time_setting(), &S::job_retention,
       "how long a run that is over is kept, with its trials, steps and events. 0s = for ever"},
      {"audit_retention", time_setting(), &S::audit_retention,
       "how long entries of the audit log are kept. 0s = for ever"},
      {"node_timeout", time_setting(kHeardOf, minutes(10)), &S::node_timeout,
       "how long a node may be silent before it is lost to its jobs. Bytes of a message on its way are no silence"},
      {"rendezvous_ports", ports_setting(), &S::rendezvous_ports,
       "ports on the node of rank 0 at which the ranks of a job on several nodes meet", "20000-29999"},
      {"memory_budget", size_setting(1), within(&S::budgets, &Budgets::memory),
       "memory that the coordinator takes before it warns. Jobs, requests, answers and agents' frames may take shares "
       "of it, or of three quarters of what the system lets it have where that is less"},
      {"cpu_budget",
       number_setting("CORES", "a number of cores above 0 and up to 4096, such as 1.5", is_count_of_cores),
       within(&S::budgets, &Budgets::cores),
       "processor time, in cores over a minute, that the coordinator takes before it warns"},
      {"disk_budget", size_setting(1), within(&S::budgets, &Budgets::disk),
       "disk that the coordinator's databases take, where they are files, before it warns"},
      // An empty one takes a tenth of the least.
      {"costs_limit", size_setting(Bytes{1} << 20), within(&S::budgets, &Budgets::costs),
       "what the rows of the cost database take, where it is a file, before no more costs are stored. Agents keep "
       "theirs meanwhile, within spool_limit. Looked at every ten seconds"}};
}

std::vector<Setting<S>> peer_settings() {
  using net::CredentialFiles;
  using net::OtlpSettings;
  return {{"tls_authority", text_setting("PATH"), within(&S::tls, &CredentialFiles::authority),
           "PEM file: whose certificates are accepted"},
          {"tls_certificate", text_setting("PATH"), within(&S::tls, &CredentialFiles::certificate),
           "PEM file: the coordinator's certificate, made by 'trimtab cert'"},
          {"tls_key", text_setting("PATH"), within(&S::tls, &CredentialFiles::key),
           "PEM file: the key to it, which nobody else may read"},
          {"tokens", text_setting("PATH"), &S::tokens,
           "file of the hashes of the tokens that people and scripts show, made by 'trimtab token'"},
          {"site_policy", text_setting("PATH"), &S::site_policy,
           "file of what jobs may ask for at most, in TOML. Read again with the tokens"},
          {"deny_list", text_setting("PATH"), &S::deny_list,
           "file of names and serial numbers that are not let in any more, made by 'trimtab cert revoke'",
           "denied in the state directory"},
          {"otlp_endpoint", parsed_setting("URL", "http(s)://HOST:PORT/PATH", net::parse_otlp_endpoint),
           within(&S::otlp, &OtlpSettings::endpoint),
           "OpenTelemetry collector that metrics are posted to. PATH is /v1/metrics where it is left out. http:// to "
           "this machine alone"},
          {"otlp_period", time_setting(seconds(1), std::chrono::hours(24)), within(&S::otlp, &OtlpSettings::period),
           "how often metrics are posted"},
          {"otlp_authority", text_setting("PATH"), within(&S::otlp, &OtlpSettings::authority),
           "PEM file: who signs the collector's certificate, for https://", "the system's authorities"},
          {"otlp_token_file", text_setting("PATH"), within(&S::otlp, &OtlpSettings::token_file),
           "the token that the collector asks for (Authorization: Bearer), read for each post"}};
}

}  // namespace

const SettingTable<Settings>& coordinator_settings() {
  static const SettingTable<Settings> kTable(SettingSources::kFileEnvironmentFlags,
                                             {place_settings(), limit_settings(), peer_settings()});
  return kTable;
}

Bytes Settings::accounted_memory() const {
  return system_memory == 0 ? budgets.memory : std::min(budgets.memory, counted_of(system_memory));
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

}  // namespace trimtab::coordinator
