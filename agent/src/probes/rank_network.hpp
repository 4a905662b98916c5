#pragma once

// Where ranks talk to each other: the network namespace they live in, and the address there that their own
// communication uses. Linux.

#include <sys/types.h>
#include <functional>
#include <string_view>
#include <vector>

#include "probes/probe_socket.hpp"

namespace trimtab::agent {

struct NetworkRank {
  std::uint32_t rank = 0;
  pid_t pid = 0;
};

// Ranks that share a network namespace, those of one together, in order of the first one's number.
struct RankNetwork {
  std::vector<NetworkRank> ranks;  // at least one
};
[[nodiscard]] std::vector<RankNetwork> networks_of(const std::vector<NetworkRank>& ranks);

// Moves the calling thread, and it alone, into the network namespace of a process; nothing where it is there already.
// For a thread that ends soon: there is no way back.
[[nodiscard]] Status enter_network_of(pid_t pid);

// The address of the interface of this name, or else of the first whose name begins so (NCCL's names are prefixes), as
// a number. With an empty name: that from which `towards` is reached.
[[nodiscard]] Result<std::string> address_for(const std::string& interface, const std::string& towards);

// The name of the interface that has this address, a number; empty: none of the calling thread's network has it.
[[nodiscard]] std::string interface_with(const std::string& address);

// What the network interface that carries a connection has moved, whoever sent it: how a link's probe tells what others
// used of the link meanwhile. Linux.

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
