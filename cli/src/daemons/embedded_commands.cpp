#include <unistd.h>

#include <filesystem>
#include <functional>

#include "daemons/embedded.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kLongestSocketPath = 107;  // sockaddr_un on Linux, less the final zero

std::string node_name(std::uint32_t index) {
  return "n" + std::to_string(index);
}

}  // namespace

std::string agent_socket(const std::string& state_directory, std::uint32_t index) {
  std::string path = state_directory + "/agents/" + node_name(index) + "/agent.sock";
  if (path.size() <= kLongestSocketPath) return path;
  // The user's id keeps people apart, the hash their state directories.
  return "/tmp/trimtab-" + std::to_string(getuid()) + "/" + std::to_string(std::hash<std::string>{}(state_directory)) +
         "-" + node_name(index) + ".sock";
}

Address embedded_address(const std::string& state_directory, std::uint16_t port) {
  Address address;
  address.port = port;
  std::error_code ignored;
  if (std::filesystem::exists(person_token(state_directory), ignored)) {
    address.token_file = person_token(state_directory);
  }
  return address;
}

std::string token_hashes(const std::string& state_directory) {
  return state_directory + "/tokens";
}
std::string person_token(const std::string& state_directory) {
  return state_directory + "/token";
}
std::string agent_token(const std::string& state_directory) {
  return state_directory + "/agent.token";
}

std::string coordinator_log(const std::string& state_directory) {
  return state_directory + "/coordinator.log";
}
std::string agent_log(const std::string& state_directory, std::uint32_t index) {
  return state_directory + "/agents/" + node_name(index) + ".log";
}

std::vector<std::string> coordinator_command(const UpOptions& options) {
  return {options.programs + "/trimtab-coordinator",
          "--listen",
          "127.0.0.1:" + std::to_string(options.port),
          "--state",
          options.state + "/coordinator",
          "--port-file",
          options.state + "/coordinator.port",
          "--log-file",
          coordinator_log(options.state),
          "--tokens",
          token_hashes(options.state)};
}

std::vector<std::string> agent_command(const UpOptions& options, std::uint16_t port, std::uint32_t index,
                                       Bytes memory) {
  std::vector<std::string> command{options.programs + "/trimtab-agent",
                                   "--coordinator",
                                   "127.0.0.1:" + std::to_string(port),
                                   "--node",
                                   node_name(index),
                                   "--state",
                                   options.state + "/agents/" + node_name(index),
                                   "--socket",
                                   agent_socket(options.state, index),
                                   "--devices",
                                   std::to_string(options.devices),
                                   "--memory",
                                   std::to_string(memory),
                                   "--token-file",
                                   agent_token(options.state),
                                   "--log-file",
                                   agent_log(options.state, index),
                                   "--metrics-port",
                                   "0",
                                   "--stop-ranks-on-exit"};
  // Its coordinator is this user's alone, so the jobs are, too.
  if (::geteuid() == 0) command.emplace_back("--run-as-root");
  return command;
}

}  // namespace trimtab::cli
