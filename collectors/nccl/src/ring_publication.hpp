#pragma once

// Completed collectives into the process's record ring (schema/record.hpp, kCollective and kP2p).

#include "collective_slots.hpp"
#include "communicators.hpp"

namespace trimtab::nccl {

// `communicator` is the table's entry of that index: it remembers the name's place in the ring while it is still the
// collective's own. Nothing happens when no agent is there.
void publish_to_ring(const CompletedCollective& completed, Communicator& communicator);

}  // namespace trimtab::nccl
