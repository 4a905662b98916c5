#pragma once

// What ran beside what: a sweep over a process's intervals in order, that says of each computation whether it ran
// alone or beside communication, and of each communication whether it ran alone, beside computation or beside another.
// What ran on another device of the process was not beside it. Only clear cases are told: what ran beside several kinds
// of things, beside other computations, or for less than a fifth of its time, is counted and left out. Constant memory:
// at most kMostAtOnce intervals run at once. Pure. Single-threaded.

#include "kernels/device_interval.hpp"

namespace trimtab::agent {

struct OverlapSeen {
  enum class Beside : std::uint8_t { kNothing, kComputation, kCommunication };
  DeviceInterval interval;
  Beside beside = Beside::kNothing;
  std::uint64_t beside_ns = 0;
  // Of kCommunication: the subjects of one communication, or of two that ran together; smaller first.
  std::array<std::uint32_t, 2> communications{};
  std::uint8_t communication_count = 0;
  // Of kComputation: the class that four fifths of it were, else nothing.
  bool one_class = false;
  KernelClass kernel_class = KernelClass::kOther;
};

struct OverlapWatchCounters {
  std::uint64_t alone = 0;
  std::uint64_t beside = 0;
  std::uint64_t slight = 0;   // beside something for less than a fifth of its time
  std::uint64_t mixed = 0;    // beside several in turn
  std::uint64_t crowded = 0;  // beside others of its own kind, or copies
};

class OverlapWatch final {
 public:
  static constexpr std::size_t kMostAtOnce = 64;

  // In order of beginnings. The result holds what has ended by then, and is valid until the next call.
  const std::vector<OverlapSeen>& add(const DeviceInterval& interval);
  // The records have a hole: what runs is forgotten.
  void restart() { running_.clear(); }
  [[nodiscard]] const OverlapWatchCounters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kMostCommunications = 4;
  struct Communication {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint32_t subject = 0;
  };
  struct Running {
    DeviceInterval interval;
    std::uint64_t computation_ns = 0;  // of others beside it, once where several ran
    std::uint64_t computed_until = 0;
    std::array<std::uint64_t, kKernelClasses.size()> by_class{};
    std::uint64_t copy_ns = 0;
    std::array<Communication, kMostCommunications> communications;
    std::uint8_t communication_count = 0;
    bool too_many = false;
  };
  static void note(Running& running, const DeviceInterval& other, std::uint64_t from_ns);
  void finish(const Running& running);
  [[nodiscard]] bool beside_computation(const Running& running, OverlapSeen& seen);
  [[nodiscard]] bool beside_communication(const Running& running, OverlapSeen& seen);

  std::vector<Running> running_;
  std::vector<OverlapSeen> seen_;
  OverlapWatchCounters counters_;
};

}  // namespace trimtab::agent
