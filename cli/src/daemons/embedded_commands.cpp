#include "daemons/embedded_commands.hpp"

#include "net/host_text.hpp"

namespace trimtab::cli {

namespace {

void add_credentials(std::vector<std::string>& command, const net::CredentialFiles& tls) {
  command.insert(command.end(),
                 {"--tls-authority", tls.authority, "--tls-certificate", tls.certificate, "--tls-key", tls.key});
}

std::string directory_name(std::uint32_t index) {
  return "n" + std::to_string(index);
}

}  // namespace

std::string token_hashes(const std::string& state_directory) {
  return state_directory + "/tokens";
}

std::string person_token(const std::string& state_directory) {
  return state_directory + "/token";
}

std::string agent_token(const std::string& state_directory) {
  return state_directory + "/agent.token";
}

std::string port_file(const std::string& state_directory) {
  return state_directory + "/coordinator.port";
}

std::string coordinator_log(const std::string& state_directory) {
  return state_directory + "/coordinator.log";
}

std::string agent_log(const std::string& state_directory, std::uint32_t index) {
  return agent_directory(state_directory, index) + ".log";
}

std::string agent_directory(const std::string& state_directory, std::uint32_t index) {
  return state_directory + "/agents/" + directory_name(index);
}

std::string node_name(const UpOptions& options, std::uint32_t index) {
  return options.shared ? options.shared->node : directory_name(index);
}

std::string agent_process(const std::string& node) {
  return "agent " + node;
}

std::vector<std::string> coordinator_command(const UpOptions& options) {
  const std::string host = options.shared ? "0.0.0.0" : "127.0.0.1";
  std::vector<std::string> command{options.programs + "/trimtab-coordinator",
                                   "--listen",
                                   host + ":" + std::to_string(options.port),
                                   "--state",
                                   options.state + "/coordinator",
                                   "--port-file",
                                   port_file(options.state),
                                   "--log-file",
                                   coordinator_log(options.state),
                                   "--tokens",
                                   options.shared ? options.shared->tokens : token_hashes(options.state)};
  if (options.shared) add_credentials(command, options.shared->coordinator_tls);
  return command;
}

std::vector<std::string> agent_command(const UpOptions& options, std::uint16_t port, std::uint32_t index, Bytes memory,
                                       bool is_root) {
  const std::string host = options.shared ? options.shared->coordinator.host : "127.0.0.1";
  std::vector<std::string> command{options.programs + "/trimtab-agent",
                                   "--coordinator",
                                   net::authority(host, port),
                                   "--node",
                                   node_name(options, index),
                                   "--state",
                                   agent_directory(options.state, index),
                                   "--socket",
                                   agent_socket(options.state, index),
                                   "--devices",
                                   std::to_string(options.devices),
                                   "--memory",
                                   std::to_string(memory),
                                   "--log-file",
                                   agent_log(options.state, index),
                                   "--metrics-port",
                                   "0",
                                   "--stop-ranks-on-exit"};
  if (options.shared) {
    add_credentials(command, options.shared->agent_tls);
  } else {
    command.insert(command.end(), {"--token-file", agent_token(options.state)});
  }
  // Its coordinator is this user's alone, so the jobs are, too.
  if (is_root) command.emplace_back("--run-as-root");
  return command;
}

}  // namespace trimtab::cli
