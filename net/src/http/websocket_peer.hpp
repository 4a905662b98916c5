#pragma once

// The WebSocket side of a Server: one peer's frames in and out, with bounded queues.

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "http/server_core.hpp"
#include "stream.hpp"

namespace trimtab::net {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

struct PeerOrigin {
  std::string address;
  std::optional<PeerIdentity> identity;  // by certificate
  std::string token;                     // as the request showed it; never to be logged
};

// Answers the upgrade request; the peer is reported as opened when the handshake is done.
void accept_websocket(const std::shared_ptr<ServerCore>& core, Stream stream, UpgradeRequest request,
                      PeerOrigin origin);

}  // namespace trimtab::net
