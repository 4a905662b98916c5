#include "agent/agent.hpp"

#include <spdlog/spdlog.h>

#include "agent_state.hpp"
#include "host/fingerprint_probe.hpp"
#include "host/process_facts.hpp"
#include "host/release_library.hpp"
#include "schema/state_directory.hpp"
#include "schema/wire_log.hpp"

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kNvmlLimit = std::chrono::seconds(10);

Bytes machine_memory() {
  const Bytes physical = Bytes{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const auto limits = host::read_cgroup_limits("/", std::to_string(::getpid()));
  return limits.ok() && limits->memory_bytes ? std::min(physical, *limits->memory_bytes) : physical;
}

// The least that a rank of this node has: a GPU's memory, or that of an instance of a divided one.
std::optional<Bytes> gpu_memory(const host::GpuInventory& gpus) {
  std::optional<Bytes> least;
  const auto count = [&](const std::optional<Bytes>& memory) {
    if (memory) least = std::min(*memory, least.value_or(*memory));
  };
  for (const host::GpuFacts& gpu : gpus.gpus) {
    for (const host::MigInstance& instance : gpu.instances) count(instance.memory);
    if (!gpu.mig.value_or(false)) count(gpu.memory);
  }
  return least;
}

Result<NodeFacts> node_facts(const Configuration& configuration, const std::string& program_directory) {
  NodeFacts facts;
  const host::ProbeInput input = host::probe_input(host::read_gpu_inventory(configuration.nvml, kNvmlLimit));
  TRIMTAB_TRY(facts.fingerprint, host::probe_fingerprint(input));
  if (facts.fingerprint.device.contains("nvml")) facts.gpu_problem = input.gpus.reason;
  facts.memory = configuration.memory > 0 ? configuration.memory
                                          : gpu_memory(input.gpus).value_or(machine_memory() / configuration.devices);
  const bool chosen = !configuration.inject_library.empty();
  const std::filesystem::path library = chosen ? std::filesystem::path(configuration.inject_library)
                                               : host::release_library(program_directory, "libtrimtab-inject.so");
  std::error_code failure;
  if (std::filesystem::exists(library, failure)) {
    facts.inject_library = std::filesystem::weakly_canonical(library, failure).string();
  } else if (chosen) {
    return bad_input("there is no library " + library.string() + ", which --inject names");
  }
  return facts;
}

Result<std::shared_ptr<net::Credentials>> load_credentials(const Configuration& configuration) {
  if (configuration.tls.empty()) return std::shared_ptr<net::Credentials>();
  TRIMTAB_TRY(auto credentials, net::Credentials::load(configuration.tls, SystemClock().wall()));
  const net::PeerIdentity& own = credentials->own();
  if (own.kind == net::CertificateKind::kNode && own.name == configuration.node) return credentials;
  return bad_input(configuration.tls.certificate + " must be the certificate of node " + configuration.node +
                   ", but it is that of '" + own.name + "': " + certificate_command(configuration) +
                   " makes the right one");
}

}  // namespace

Agent::Agent(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::start(net::EventLoop& loop, const Configuration& configuration,
                                            const std::string& program_directory) {
  hand_over_protobuf_log([](const std::string& line) { spdlog::debug("{}", line); });
  TRIMTAB_TRY_STATUS(check_configuration(configuration));
  TRIMTAB_TRY_STATUS(check_user(configuration, ::geteuid() == 0));
  TRIMTAB_TRY_STATUS(check_state(configuration));
  TRIMTAB_TRY(auto credentials, load_credentials(configuration));
  TRIMTAB_TRY(const NodeFacts facts, node_facts(configuration, program_directory));
  TRIMTAB_TRY_STATUS(check_state_path(configuration.state));
  TRIMTAB_TRY_STATUS(make_private_directories(configuration.state));
  TRIMTAB_TRY_STATUS(check_state_directory(configuration.state));
  // Its folder, where one is named.
  const std::string beside = std::filesystem::absolute(configuration.socket).parent_path().string();
  TRIMTAB_TRY_STATUS(make_private_directories(beside));
  TRIMTAB_TRY_STATUS(check_socket_directory(beside));
  Random random(random_seed());
  TRIMTAB_TRY(auto database, open_agent_database(configuration.state + "/agent.db", random));
  auto implementation = std::make_unique<Implementation>(loop, configuration, facts, std::move(database), random.next(),
                                                         std::move(credentials));
  TRIMTAB_TRY_STATUS(implementation->open());
  return std::unique_ptr<Agent>(new Agent(std::move(implementation)));
}

std::string Agent::status() const {
  const Implementation& self = *implementation_;
  const Configuration& chosen = self.configuration;
  std::string text = "coordinator " + chosen.coordinator_host + ":" + std::to_string(chosen.coordinator_port) +
                     (self.conversation.connected() ? " connected" : " absent") + ", " +
                     std::to_string(self.ranks.running()) + " ranks run";
  if (self.kill_switch.thrown()) text += ", kill switch thrown";
  return text;
}

void Agent::reload() {
  implementation_->reload(true);
}

void Agent::stop(std::function<void()> done) {
  implementation_->stop(std::move(done));
}

}  // namespace trimtab::agent
