#pragma once

// Whose the listener is that a stream is connected to, where it is on this machine.

#include <functional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "local/socket_file.hpp"
#include "net/listener_rule.hpp"
#include "stream.hpp"
#include "trust/socket_user.hpp"

namespace trimtab::net {

// Calls `done` once with what speaks against sending anything, or "". A user holds the socket at the other end once the
// listener has accepted: until then it is looked at again, up to `patience`. Beyond loopback nothing is looked at.
// `done` keeps the stream alive. It is dropped where the stream is closed before. REQUIRES: connected, without TLS.
void judge_listener(Stream& stream, ListenerRule rule, Nanoseconds patience,
                    std::function<void(const std::string& objection)> done, SocketHolder holder = socket_holder);

// What speaks against a listener of that user, or "". `own`: as whom this process runs, which can tell `users` apart.
[[nodiscard]] std::string objection_to_listener(uid_t user, uid_t own, const UserNamespace& users,
                                                const ListenerRule& rule);

}  // namespace trimtab::net
