#pragma once

// How a step's time is shared between computation, communication that nothing hides, copies and idleness: a sweep over
// the intervals of all streams of one rank, in order. At every moment the device counts as computing when any stream
// computes, else as communicating, else as copying, else as idle; so the four add up to the step. What of the
// communication was what, and what the idling was for, is told beside them. Constant memory. Pure.

#include <optional>

#include "kernels/device_interval.hpp"
#include "kernels/host_waits.hpp"

namespace trimtab::agent {

struct StreamShares {
  std::uint32_t stream = 0;
  std::uint64_t computation_ns = 0;
  std::uint64_t communication_ns = 0;
  std::uint64_t copy_ns = 0;
};

// What a communication is for.
enum class Purpose : std::uint8_t {
  kOwn,       // of the pass that it runs in: tensor parallelism
  kLayout,    // a change of layout between passes
  kTransfer,  // to or from another stage
  kGradients,
  kUnknown,
};

struct SweptCommunication {
  Purpose purpose = Purpose::kUnknown;
  // Of a transfer: what it takes once both ends are there; before that it waits for the other. Nothing = not known.
  std::optional<std::uint64_t> wire_ns = std::nullopt;
};

// Parts of a step's exposed communication, which add up to it, and parts of its idling.
struct StepParts {
  // What is not known changes nothing where it is no more than this part of a step.
  static constexpr double kSlight = 0.005;

  std::uint64_t own_ns = 0;
  std::uint64_t layout_ns = 0;
  std::uint64_t gradients_ns = 0;
  std::uint64_t wire_ns = 0;       // transfers while both ends are there
  std::uint64_t bubble_ns = 0;     // transfers while the other stage is not there yet
  std::uint64_t unsplit_ns = 0;    // transfers of which nobody knows how much of them is which
  std::uint64_t unknown_ns = 0;    // of no known purpose
  std::uint64_t launching_ns = 0;  // idle: the host had not handed out yet what came next, and waited for nothing
  std::uint64_t data_ns = 0;       // idle: the host waited for the next batch
  std::uint64_t unjudged_ns = 0;   // idle: nobody knows when what came next was handed out

  StepParts& operator+=(const StepParts& other);
  bool operator==(const StepParts&) const = default;
};

struct StepShares {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t computation_ns = 0;
  std::uint64_t exposed_communication_ns = 0;     // nothing computes meanwhile
  std::uint64_t overlapped_communication_ns = 0;  // within computation_ns
  std::uint64_t exposed_copy_ns = 0;              // nothing computes or communicates meanwhile
  std::uint64_t overlapped_copy_ns = 0;
  std::uint64_t idle_ns = 0;
  StepParts parts;
  std::vector<StreamShares> streams;  // those that did something; at most StepSweep::kMostStreams
};

class StepSweep final {
 public:
  static constexpr std::size_t kMostStreams = 64;

  // A step begins; intervals that still run reach into it.
  void begin(std::uint64_t begin_ns) { (void)end(std::max(begin_ns, now_ns_)); }
  // What comes next was handed out until then; nothing = not known. To be said before the add() or end() that the
  // idling until it is counted by.
  void next_handed_out(std::optional<std::uint64_t> end_ns) { handed_out_ns_ = end_ns; }
  // In order of beginnings. What began before the step counts from its beginning on.
  void add(const DeviceInterval& interval, const SweptCommunication& communication = {});
  // The step that ends here; the next begins. Intervals that reach beyond are cut.
  [[nodiscard]] StepShares end(std::uint64_t end_ns);
  // How far the sweep has come.
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  // Of streams beyond kMostStreams, whose time is only in the sums.
  [[nodiscard]] std::uint64_t streams_left_out() const { return left_out_; }
  // When the host waited, of all times that are still to be swept.
  HostWaits& waits() { return waits_; }

 private:
  // What may run, in the order in which it counts.
  enum Work : std::size_t { kComputes, kOwn, kLayout, kWire, kUnsplit, kGradients, kUnknown, kWaitsForPeer, kCopies };
  static constexpr std::size_t kWorks = kCopies + 1;
  static constexpr std::size_t kActivities = 3;
  using Until = std::array<std::uint64_t, kActivities>;  // by Activity: busy up to here
  struct Stream {
    std::uint32_t number = 0;
    Until until{};
    Until busy{};
  };
  void advance(std::uint64_t now_ns);
  void run(Work work, std::uint64_t until_ns) { until_[work] = std::max(until_[work], until_ns); }
  void run_transfer(const DeviceInterval& interval, std::optional<std::uint64_t> wire_ns);
  void start_wires();
  void idle(std::uint64_t until_ns);
  [[nodiscard]] StepParts parts() const;
  [[nodiscard]] Stream* stream_of(std::uint32_t number);

  std::uint64_t begin_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::array<std::uint64_t, kWorks> until_{};                      // busy up to here
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wires_;     // transfers whose other end comes later
  std::array<std::uint64_t, std::size_t{1} << kWorks> by_mask_{};  // time by the set of works that ran
  std::optional<std::uint64_t> handed_out_ns_;
  StepParts idling_;
  HostWaits waits_;
  std::vector<Stream> streams_;
  std::uint64_t left_out_ = 0;
};

}  // namespace trimtab::agent
