#pragma once

// The WebSocket side of a Server: one peer's frames in and out, with bounded queues.

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>

#include "server_core.hpp"
#include "stream.hpp"

namespace trimtab::net {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

// Answers the upgrade request; the peer is reported as opened when the handshake is done.
void accept_websocket(const std::shared_ptr<ServerCore>& core, Stream stream, UpgradeRequest request,
                      std::optional<PeerIdentity> identity);

}  // namespace trimtab::net
