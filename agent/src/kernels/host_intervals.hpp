#pragma once

// The intervals of a job that runs on the host alone: from its own ranges (docs/protocols.md, "Ranges"). Operators'
// passes and the optimizer are computation, collectives and transfers are communication; a stream is a thread. A
// communication within a computation of the same thread hides nothing: the computation is cut around it. Bounded. Pure.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/device_interval.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent {

class HostIntervals final {
 public:
  // Computation or communication; nothing for ranges that are neither.
  [[nodiscard]] static std::optional<Activity> activity_of(const RangeRecord& range);

  // The intervals of a range that has one of the activities; `subject` becomes theirs. Valid until the next call.
  const std::vector<DeviceInterval>& add(const RangeRecord& range, Activity activity, std::uint32_t subject);

 private:
  struct Communication {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  std::unordered_map<std::uint32_t, std::vector<Communication>> communications_;  // by thread, the latest
  std::vector<DeviceInterval> pieces_;
};

}  // namespace trimtab::agent
