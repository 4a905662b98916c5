#pragma once

// Where ranks talk to each other: the network namespace they live in, and the address there that their own
// communication uses. Linux.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

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

}  // namespace trimtab::agent
