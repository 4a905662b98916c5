#pragma once

// How far a TCP connection has come, by the kernel's own account (TCP_INFO): a frame that takes a minute on a slow link
// is no silence, although nobody has read it yet.

#include <cstdint>

namespace trimtab::net {

struct TransportProgress {
  std::uint64_t acknowledged = 0;  // bytes that the other side's kernel has taken
  std::uint64_t received = 0;      // bytes that have come, read by us or not
  std::uint64_t waiting = 0;       // bytes that our kernel holds until they are acknowledged, sent or not
};

// Zeros where the kernel does not say (some sandboxes' do not): then only what is read counts as a sign of life.
[[nodiscard]] TransportProgress transport_progress(int socket);

}  // namespace trimtab::net
