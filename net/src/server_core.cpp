#include "server_core.hpp"

namespace trimtab::net {
namespace {

// The one that has been waited for longest; the end when none is waited for.
template <typename Connections>
auto longest_waiting(const Connections& connections) {
  auto longest = connections.end();
  WaitingSince earliest;
  for (auto one = connections.begin(); one != connections.end(); ++one) {
    const WaitingSince since = one->second->waiting_since();
    if (!since || (earliest && *earliest <= *since)) continue;
    earliest = since;
    longest = one;
  }
  return longest;
}

}  // namespace

bool ServerCore::make_room() {
  const auto session = longest_waiting(sessions);
  const auto peer = longest_waiting(peers);
  const bool has_session = session != sessions.end();
  const bool has_peer = peer != peers.end();
  if (!has_session && !has_peer) return false;
  const bool of_http = has_session && (!has_peer || session->second->waiting_since() <= peer->second->waiting_since());
  refused(
      Refusal::Kind::kFull, of_http ? session->second->address() : peer->second->address(),
      "of " + std::to_string(options.max_connections) + " connections it has been silent for longest, and gives way");
  if (of_http) {
    const auto ended = session->second;
    sessions.erase(session);
    ended->abort();
  } else {
    const auto ended = peer->second;
    ended->give_way();
  }
  return true;
}

}  // namespace trimtab::net
