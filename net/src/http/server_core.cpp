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

// The one of `those` whose `since` is earliest; the end when there is none.
template <typename Connections, typename Those, typename Since>
auto earliest_of(const Connections& connections, const Those& those, const Since& since) {
  auto earliest = connections.end();
  for (auto one = connections.begin(); one != connections.end(); ++one) {
    if (!those(*one->second)) continue;
    if (earliest == connections.end() || since(*one->second) < since(*earliest->second)) earliest = one;
  }
  return earliest;
}

}  // namespace

AccountLimits widened(AccountLimits limits, std::uint64_t single) {
  return {std::max(limits.together, single), std::max(limits.each, single)};
}

// A buffer may be twice as large as what it holds.
ServerCore::ServerCore(ServerOptions of)
    : options(std::move(of)),
      bodies(widened(options.bodies, options.max_body_bytes)),
      answers(options.answers),
      unknown_half_frames(
          widened({options.unknown_half_frames, options.unknown_half_frames}, 2 * options.max_frame_bytes_of_unknown)),
      half_frames(widened(options.half_frames, 2 * options.max_frame_bytes)) {}

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
  const auto since = [](const WebSocketPeer& one) { return one.half_frame_since(); };
  // Ends the oldest of `account`; of one caller, or of all. False: what is left is of peers that end already.
  const auto end_oldest = [&](const Account& account, const std::string* caller, const std::string& whose,
                              std::uint64_t most) {
    const auto those = [&](const WebSocketPeer& one) {
      const Charge* charge = one.half_frame();
      return charge != nullptr && charge->is_of(account) && (caller == nullptr || charge->owner() == *caller);
    };
    const auto peer = earliest_of(peers, those, since);
    if (peer == peers.end()) return false;
    const auto ended = peer->second;
    const std::string reason =
        "half frames of " + whose + " take more than " + std::to_string(most) + " bytes, and its own is the oldest";
    refused(Refusal::Kind::kFull, ended->origin.address, reason);
    ended->give_way(reason);
    return true;
  };
  while (unknown_half_frames.is_over() &&
         end_oldest(unknown_half_frames, nullptr, "those that have not said who they are",
                    unknown_half_frames.limits().together)) {
  }
  for (std::string most = half_frames.largest(); half_frames.is_over(most) || half_frames.is_over();
       most = half_frames.largest()) {
    const bool of_one = half_frames.is_over(most);
    const AccountLimits& limits = half_frames.limits();
    if (!end_oldest(half_frames, &most, of_one ? "its certificate or token" : "all agents",
                    of_one ? limits.each : limits.together)) {
      return;
    }
  }
}

void ServerCore::make_room_for_answer(const std::string& caller, std::uint64_t bytes) {
  while (!answers.has_room(caller, bytes)) {
    const bool own = answers.used_by(caller) > 0 && answers.used_by(caller) + bytes > answers.limits().each;
    const std::string whose = own ? caller : answers.largest();
    const auto those = [&](const HttpSession& one) {
      return one.answer() != nullptr && one.answer()->owner() == whose;
    };
    const auto session = earliest_of(sessions, those, [](const HttpSession& one) { return one.answering_since(); });
    if (session == sessions.end()) return;
    const auto ended = session->second;
    refused(Refusal::Kind::kSlow, ended->address,
            "it does not read its answer of " + std::to_string(ended->answer()->bytes()) +
                " bytes, and others need the room");
    ended->give_way();
  }
}

bool ServerCore::has_room(std::size_t waiting, std::size_t bytes) const {
  if (waiting == 0) return true;
  return waiting + bytes <= options.max_queued_bytes / 2 && queued_bytes + bytes <= most_queued() / 2;
}

std::uint64_t ServerCore::most_queued() const {
  return std::max<std::uint64_t>(options.all_queued_bytes, options.max_queued_bytes);
}

void ServerCore::bound_queues() {
  while (queued_bytes > most_queued()) {
    auto longest = peers.end();
    for (auto one = peers.begin(); one != peers.end(); ++one) {
      if (longest == peers.end() || one->second->queued_bytes() > longest->second->queued_bytes()) longest = one;
    }
    if (longest == peers.end() || longest->second->queued_bytes() == 0) return;
    const auto ended = longest->second;
    ended->drop("it does not read: " + std::to_string(ended->queued_bytes()) +
                " bytes waited for it, and all agents' queues are full");
  }
}

}  // namespace trimtab::net
