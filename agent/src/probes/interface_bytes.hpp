#pragma once

// What the network interface that carries a connection has moved, whoever sent it: how a link's probe tells what others
// used of the link meanwhile. Linux.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "probes/probe_socket.hpp"

namespace trimtab::agent {

// Since the interface is there; only differences mean something.
struct InterfaceBytes {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};
// A reading; nothing where it cannot be had. For the thread that holds the connection.
using InterfaceReading = std::function<std::optional<InterfaceBytes>()>;
// Of the interface that carries a connection.
using InterfaceSource = std::function<InterfaceReading(const ProbeSocket& connection)>;

// The kernel's own counters, in the calling thread's network namespace. They never tell of a connection that stays
// within that network: no interface's counters are of it alone, and other links are not in them.
[[nodiscard]] InterfaceReading kernel_interface_bytes(const ProbeSocket& connection);

// A line of /proc/net/dev; nothing where there is none of this name.
[[nodiscard]] std::optional<InterfaceBytes> parse_interface_bytes(std::string_view text, std::string_view interface);

}  // namespace trimtab::agent
