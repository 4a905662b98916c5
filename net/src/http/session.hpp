#pragma once

// HTTP/1.1 on one accepted connection, under TLS where the server has credentials, until it closes or becomes a
// WebSocket.

#include <memory>
#include <string>

#include "http/server_core.hpp"
#include "stream.hpp"

namespace trimtab::net {

// Registers itself in `core.sessions` and starts to read. `address` is the client's.
void start_http_session(const std::shared_ptr<ServerCore>& core, TcpSocket socket, std::string address);

}  // namespace trimtab::net
