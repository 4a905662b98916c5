#include "http/server_core.hpp"

namespace trimtab::net {
namespace {

// The one of `those` that has been waited for longest; the end when none is waited for.
template <typename Connections, typename Those>
auto longest_waiting(const Connections& connections, const Those& those) {
  auto longest = connections.end();
  WaitingSince earliest;
  for (auto one = connections.begin(); one != connections.end(); ++one) {
    const WaitingSince since = one->second->waiting_since();
    if (!since || (earliest && *earliest <= *since) || !those(*one->second)) continue;
    earliest = since;
    longest = one;
  }
  return longest;
}

}  // namespace

bool ServerCore::make_room() {
  const auto all = [](const auto&) { return true; };
  const auto session = longest_waiting(sessions, all);
  const auto peer = longest_waiting(peers, all);
  const bool has_session = session != sessions.end();
  const bool has_peer = peer != peers.end();
  if (!has_session && !has_peer) return false;
  const bool of_http = has_session && (!has_peer || session->second->waiting_since() <= peer->second->waiting_since());
  refused(
      Refusal::Kind::kFull, of_http ? session->second->address : peer->second->origin.address,
      "of " + std::to_string(options.max_connections) + " connections it has been silent for longest, and gives way");
  if (of_http) {
    const auto ended = session->second;
    sessions.erase(session);
    ended->abort();
  } else {
    const auto ended = peer->second;
    ended->give_way("it was silent for longest, and there were too many connections");
  }
  return true;
}

void ServerCore::bound_half_frames() {
  // A buffer may be twice as large as what it holds.
  const std::size_t most = std::max(kMostHalfFrameBytes, 2 * options.max_frame_bytes_of_unknown);
  while (half_frame_bytes > most) {
    const auto peer = longest_waiting(peers, [](const WebSocketPeer& one) { return one.half_frame_bytes() > 0; });
    if (peer == peers.end()) return;  // what is left is of peers that end already
    const auto ended = peer->second;
    const std::string reason = "half frames of those that have not said who they are take more than " +
                               std::to_string(most) + " bytes, and its own is the oldest";
    refused(Refusal::Kind::kFull, ended->origin.address, reason);
    ended->give_way(reason);
  }
}

}  // namespace trimtab::net
