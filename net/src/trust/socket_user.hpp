#pragma once

// Which user of this machine holds a socket that is connected over loopback. Any thread may call; nothing waits.

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <optional>

#include "base/result.hpp"

namespace trimtab::net {

// Of the socket with these ends, IPv4 ones not mapped. Nothing where there is none, or nobody holds it: a connection
// that its listener has not accepted yet, or that is closed. An error where the kernel does not say.
using SocketHolder = std::function<Result<std::optional<uid_t>>(const boost::asio::ip::tcp::endpoint& local,
                                                                const boost::asio::ip::tcp::endpoint& remote)>;

// One question to the kernel (sock_diag), however many sockets there are.
[[nodiscard]] Result<std::optional<uid_t>> asked_holder(const boost::asio::ip::tcp::endpoint& local,
                                                        const boost::asio::ip::tcp::endpoint& remote);
// By the kernel's tables: some milliseconds where there are hundreds of sockets.
[[nodiscard]] Result<std::optional<uid_t>> listed_holder(const boost::asio::ip::tcp::endpoint& local,
                                                         const boost::asio::ip::tcp::endpoint& remote);
// Asked, else listed: some sandboxes answer no questions.
[[nodiscard]] Result<std::optional<uid_t>> socket_holder(const boost::asio::ip::tcp::endpoint& local,
                                                         const boost::asio::ip::tcp::endpoint& remote);

}  // namespace trimtab::net
