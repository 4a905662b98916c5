#pragma once

// Who listens at the agent's Unix socket. A process hands its agent what it measures, and whoever may write in the
// socket's directory can listen there instead. No call blocks.

#include <sys/types.h>

#include <cstdint>

namespace trimtab::inject {

// Whether root, this process's user or `named` listens at the other end of this connection. In a container's user
// namespace, whoever has no number there may be anybody.
bool is_believed(int connection, std::uint32_t named);

// Of the texts of /proc/self/uid_map and /proc/sys/kernel/overflowuid: whether that is one user alone. Pure, for tests.
bool is_one_user(std::uint32_t user, const char* uid_map, const char* overflow);

}  // namespace trimtab::inject
