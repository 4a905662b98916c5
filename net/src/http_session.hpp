#pragma once

// HTTP/1.1 on one accepted connection, until it closes or becomes a WebSocket.

#include <memory>

#include "server_core.hpp"
#include "stream.hpp"

namespace trimtab::net {

// Registers itself in `core.sessions` and starts to read.
void start_http_session(const std::shared_ptr<ServerCore>& core, TcpSocket socket);

}  // namespace trimtab::net
