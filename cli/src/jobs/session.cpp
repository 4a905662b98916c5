#include "jobs/session.hpp"

#include <CLI/CLI.hpp>

#include "daemons/embedded.hpp"
#include "jobs/status_text.hpp"
#include "schema/state_directory.hpp"

namespace trimtab::cli {

namespace {

std::int64_t connected_devices(const api::ClusterStatus& cluster) {
  std::int64_t devices = 0;
  for (const api::Node& node : cluster.nodes) devices += node.state == "connected" ? node.devices : 0;
  return devices;
}

std::string plural(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " device" : " devices");
}

// A job waits for devices that may still come; where none can come of themselves that would be for ever.
Status check_devices(const CoordinatorClient& client, std::int32_t needed, bool may_grow, Console& console) {
  TRIMTAB_TRY(const auto cluster, client.read<api::ClusterStatus>("/v1/status"));
  const std::int64_t found = connected_devices(cluster);
  if (found >= needed) return {};
  const std::string message = "the job needs " + plural(needed) + ", but the cluster has " + plural(found);
  if (!may_grow) {
    return unavailable(message + "; run 'trimtab down', then 'trimtab up --devices " + std::to_string(needed) + "'");
  }
  console.err << "trimtab: " << message << ": the job will wait for agents to join\n";
  return {};
}

}  // namespace

void add_coordinator_flags(CLI::App* verb, SessionFlags& flags) {
  add_value(verb, "--coordinator", flags.coordinator, "HOST:PORT", "The coordinator (default: the one that is up)");
  add_value(verb, "--state", flags.state, "DIR", "State directory of 'trimtab up' (default: $XDG_STATE_HOME/trimtab)");
  add_value(verb, "--tls-authority", flags.tls.authority, "FILE", "The cluster's authority (PEM)")
      ->envname("TRIMTAB_CLIENT_TLS_AUTHORITY");
  add_value(verb, "--tls-certificate", flags.tls.certificate, "FILE", "Your certificate (PEM)")
      ->envname("TRIMTAB_CLIENT_TLS_CERTIFICATE");
  add_value(verb, "--tls-key", flags.tls.key, "FILE", "The key to it (PEM)")->envname("TRIMTAB_CLIENT_TLS_KEY");
  add_value(verb, "--token-file", flags.token_file, "FILE", "Your token (default: that of the coordinator that is up)")
      ->envname("TRIMTAB_CLIENT_TOKEN_FILE");
  add_value(verb, "--coordinator-user", flags.coordinator_user, "USER",
            "As whom the coordinator may run on this machine without TLS, beside root and you")
      ->envname("TRIMTAB_CLIENT_COORDINATOR_USER");
}

Result<CoordinatorClient> existing_coordinator(const SessionFlags& flags) {
  const auto state = state_directory(flags.state);
  if (flags.coordinator.empty() && !flags.state.empty()) TRIMTAB_TRY_STATUS(check_own_state(flags.state));
  TRIMTAB_TRY(Address address, coordinator_address(flags.coordinator, state.ok() ? *state : ""));
  address.user = flags.coordinator_user;
  // What `up` started is asked with its own token, and speaks no TLS.
  if (address.token_file.empty()) {
    address.tls = flags.tls;
    address.token_file = flags.token_file;
  }
  return CoordinatorClient(address);
}

Result<std::unique_ptr<Session>> Session::open(const SessionFlags& flags, std::int32_t devices, const Clock& clock,
                                               Console& console) {
  if (!flags.coordinator.empty()) {
    TRIMTAB_TRY(const CoordinatorClient client, existing_coordinator(flags));
    TRIMTAB_TRY_STATUS(check_devices(client, devices, true, console));
    return std::unique_ptr<Session>(new Session(client, "", " --coordinator " + flags.coordinator, clock, console));
  }
  UpOptions options;
  TRIMTAB_TRY(options.state, state_directory(flags.state));
  options.programs = program_directory();
  options.port = 0;  // nobody needs to know it, and the usual one may be taken
  options.devices = static_cast<std::uint32_t>(devices);
  options.owned = !flags.keep_up;
  TRIMTAB_TRY(const UpOutcome outcome, bring_up(options, clock));
  const bool ours = outcome.state.owner == this_process();
  const CoordinatorClient client(embedded_address(options.state, outcome.state));
  // From here on a failure brings down what was started.
  const std::string flag = flags.state.empty() ? "" : " --state " + flags.state;
  std::unique_ptr<Session> session(new Session(client, ours ? options.state : "", flag, clock, console));
  TRIMTAB_TRY_STATUS(check_devices(client, devices, false, console));
  return session;
}

Status Session::keep_up() {
  if (owned_state_.empty()) return {};
  TRIMTAB_TRY_STATUS(disown(owned_state_));
  owned_state_.clear();
  return {};
}

Session::~Session() {
  if (owned_state_.empty()) return;
  const Status released = release(owned_state_, clock_);
  if (!released.ok()) {
    console_.err << "trimtab: couldn't stop the embedded daemons: " << released.error().message << "\n";
  }
}

Result<std::string> chosen_job(const CoordinatorClient& client, const std::string& wanted) {
  TRIMTAB_TRY(const auto cluster, client.read<api::ClusterStatus>("/v1/status"));
  return choose_job(cluster, wanted);
}

}  // namespace trimtab::cli
