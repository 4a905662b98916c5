#pragma once

// What an agent is told: defaults, then its TOML file, then the environment (TRIMTAB_*), then the command line, each
// over the one before. Plain values and pure functions.

#include <map>

#include "net/credentials.hpp"
#include "net/listener_rule.hpp"
#include "net/otlp_settings.hpp"
#include "schema/settings/settings.hpp"

namespace trimtab::agent {

struct Configuration {
  std::string coordinator_host = "127.0.0.1";
  std::uint16_t coordinator_port = 7420;
  std::string socket;  // absolute; where nobody says which, in the state's directory
  std::string state;   // absolute: a directory; empty = nobody has said which
  std::string node;
  std::string tenant;        // whose jobs alone run here; "*" = everybody's; empty = not said
  bool run_as_root = false;  // an agent of root serves every tenant only when it is told to
  std::string address;       // where other nodes' ranks reach those here; empty = as the coordinator sees this agent
  std::uint32_t devices = 1;
  Bytes memory = 0;  // per device; 0 = the GPU's, or this machine's divided by the devices
  std::string log_level = "info";
  std::string log_file;  // empty = standard error, whose reader keeps it
  Bytes log_limit = Bytes{16} << 20;
  std::string metrics_address = "127.0.0.1";  // beyond loopback under TLS, for people's certificates
  std::uint16_t metrics_port = 7421;          // 0 = off
  bool metrics_name_jobs = false;             // on loopback, where every user of the machine can read them
  std::string inject_library;                 // empty = beside the executable
  Bytes spool_limit = Bytes{256} << 20;
  std::optional<Bytes> disk_budget;  // that it takes before it warns; nothing = allowed_disk()'s own choice
  // That it takes before it warns; nothing = little while no rank runs, more while some do.
  std::optional<Bytes> memory_budget;
  std::optional<double> cpu_budget;                         // in cores, over a minute
  Nanoseconds job_retention = std::chrono::hours(24 * 30);  // of jobs that are over; 0 = for ever
  Bytes rank_log_limit = Bytes{16} << 20;
  Bytes checkpoint_copy_limit = Bytes{512} << 30;  // that a trial may copy of a job's checkpoint
  Bytes max_frame = Bytes{8} << 20;                // of the coordinator
  std::uint32_t max_message_rate = 10'000;         // of the coordinator and of each process on the socket, per second
  Bytes max_byte_rate = Bytes{32} << 20;           // of the same; where it is less, max_frame
  Bytes link_queue = Bytes{16} << 20;              // what may wait for a slow coordinator, beside the spool
  Bytes ring_memory = Bytes{256} << 20;  // of all record rings that are read; beyond it processes are not measured
  Bytes ring_memory_of_process = Bytes{72} << 20;        // of one process
  Nanoseconds silence_limit = std::chrono::seconds(15);  // of the coordinator: then the link is made anew
  Nanoseconds kill_grace = std::chrono::seconds(5);
  bool stop_ranks_on_exit = false;
  Nanoseconds sample_period = std::chrono::seconds(5);       // of the machine's metrics; 0 = off
  std::string nvml = "libnvidia-ml.so.1";                    // a name for the loader, or a path
  net::CredentialFiles tls;                                  // all empty = no TLS
  std::string token_file;                                    // of the agent's own token; empty = none
  std::string coordinator_user = net::kPackagedCoordinator;  // beside root and the own user, without TLS here
  net::OtlpSettings otlp;                                    // where metrics are posted, too; nowhere unless told
};

[[nodiscard]] const SettingTable<Configuration>& agent_settings();

struct ConfigurationFile {
  std::string name;
  std::string text;
};

// `defaults` are those of this machine. REQUIRES: each of the `flags` is a setting's name.
[[nodiscard]] Result<Configuration> configure(Configuration defaults, const std::optional<ConfigurationFile>& file,
                                              const std::map<std::string, std::string>& environment,
                                              const std::map<std::string, std::string>& flags);

// What the agent may take of its disk before it warns: `disk_budget`, else 2 GiB or four times `spool_limit`, whichever
// is more.
[[nodiscard]] Bytes allowed_disk(const Configuration& configuration);

// What no key can see by itself: TLS is three files, beyond loopback a coordinator is spoken to, and metrics are shown,
// under TLS alone, and the spool alone must not be able to exceed the budget of disk.
[[nodiscard]] Status check_configuration(const Configuration& configuration);

// What issues the certificate that it needs, for messages.
[[nodiscard]] std::string certificate_command(const Configuration& configuration,
                                              const std::vector<std::string>& hosts = {});

// Whether there is a place for the state: the environment may say none.
[[nodiscard]] Status check_state(const Configuration& configuration);

// Whether this user's agent may serve those tenants: what an agent starts runs as its own user, so root's names one
// tenant, or says that everybody who may hand in a job is to be root here.
[[nodiscard]] Status check_user(const Configuration& configuration, bool is_root);

// The places this user may write to, where the environment says which, and this host's name. `system` is true for root.
[[nodiscard]] Configuration default_configuration(bool system, const std::map<std::string, std::string>& environment,
                                                  const std::string& host_name);

}  // namespace trimtab::agent
