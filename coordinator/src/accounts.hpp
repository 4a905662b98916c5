#pragma once

// What the coordinator's parts may take of its memory: each has an account, of one size for all who charge it and of
// another for each tenant, token or certificate. The sizes are shares of what the coordinator counts with, so that all
// accounts together leave room for itself, whoever fills them. Pure.

#include <cstdint>

#include "base/account.hpp"
#include "base/units.hpp"

namespace trimtab::coordinator {

struct Shares {
  AccountLimits jobs;         // by tenant: jobs that are known, with their documents while they are not over
  AccountLimits bodies;       // by caller: requests under way
  AccountLimits answers;      // by caller: on their way
  AccountLimits half_frames;  // by certificate or token: of agents that have said hello
  std::uint64_t unknown_half_frames = 0;
  std::uint64_t queues = 0;  // frames that wait for agents that do not read
};
[[nodiscard]] Shares shares_of(Bytes memory);

// What of `limit`, which the system sets, accounts may count with: the program, its stacks and what its allocator
// cannot give back take the rest.
[[nodiscard]] constexpr Bytes counted_of(Bytes limit) {
  return limit / 4 * 3;
}

// The least that the system lets this process have: by its control groups, by its own limits (ulimit -v, -d), by the
// machine.
[[nodiscard]] Bytes system_memory_limit();

// Descriptors of a coordinator's that are no connections: databases, their logs, those of answers that are made.
inline constexpr std::uint64_t kOtherDescriptors = 64;
// How many connections, up to those that are wanted, so many descriptors leave room for; one at least.
[[nodiscard]] std::uint32_t connections_within(std::uint32_t wanted, std::uint64_t descriptors);

}  // namespace trimtab::coordinator
