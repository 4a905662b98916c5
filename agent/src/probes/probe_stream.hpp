#pragma once

// Bytes to and from the other side of a link's probe: a ProbeSocket, or what a test plays.

#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "probes/probe_wait.hpp"

namespace trimtab::agent {

class ProbeStream {
 public:
  virtual ~ProbeStream() = default;
  // All of it, or an error: also where the other side closes.
  [[nodiscard]] virtual Status send(std::span<const std::byte> bytes, const ProbeWait& wait) const = 0;
  [[nodiscard]] virtual Status receive(std::span<std::byte> bytes, const ProbeWait& wait) const = 0;
};

}  // namespace trimtab::agent
