// Where an agent of this node listens.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "daemons/embedded.hpp"
#include "files.hpp"
#include "net/listener_rule.hpp"
#include "run/watching.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

// What speaks against who listens there, "" for an agent that is believed. Nothing: nobody answers.
std::optional<std::string> objection(const std::string& path, const Variables& variables) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool answers = connection.get() >= 0 &&
                       connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!answers) return std::nullopt;
  return net::objection_to_agent(connection.get(), value_of(variables, "TRIMTAB_AGENT_UID"));
}

}  // namespace

Result<std::string> agent_socket_here(const std::string& named, const std::string& state_directory,
                                      const Variables& variables) {
  std::vector<std::string> places;
  if (!named.empty()) {
    places.push_back(named);
  } else {
    const std::string own = value_of(variables, "TRIMTAB_SOCKET");
    const std::string runtime = value_of(variables, "XDG_RUNTIME_DIR");
    if (!own.empty()) places.push_back(own);
    if (!state_directory.empty() && check_own_state(state_directory).ok()) {
      places.push_back(agent_socket(state_directory, 0));
      places.push_back(state_directory + "/agent.sock");
    }
    if (!runtime.empty()) places.push_back(runtime + "/trimtab/agent.sock");
    places.emplace_back("/run/trimtab/agent.sock");
  }
  std::string others;
  for (const std::string& place : places) {
    const auto why = objection(place, variables);
    if (why && why->empty()) return place;
    if (why) others += " (" + place + ": " + *why + ")";
  }
  return unavailable("no agent of this user answers on this node, at " + joined(places) + others +
                     "; name the socket of one by --agent-socket");
}

}  // namespace trimtab::cli
