// Where an agent of this node listens.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "daemons/embedded.hpp"
#include "files.hpp"
#include "run/watching.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

// Whether somebody listens there whom this user may speak to.
bool answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connection.get() >= 0 &&
         connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
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
  for (const std::string& place : places) {
    if (answers(place)) return place;
  }
  return unavailable("no agent of this user answers on this node, at " + joined(places) +
                     "; name the socket of one by --agent-socket");
}

}  // namespace trimtab::cli
