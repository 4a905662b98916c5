#pragma once

// Which user of this machine is at the other end of a connection over loopback. Any thread may call; nothing waits.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace trimtab::net {

// Of the socket that is connected from `client` to `server`, both "ADDRESS:PORT" ("[::1]:7421" or "::1:7421" too). One
// question to the kernel (sock_diag), however many sockets there are. Nothing where either is no loopback address,
// where the kernel does not answer such questions, and of a socket that its user has closed meanwhile.
[[nodiscard]] std::optional<uid_t> local_user(const std::string& client, const std::string& server);

}  // namespace trimtab::net
