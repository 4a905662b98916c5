#pragma once

// One stretch of time on one stream of a device, as kernels, collectives and copies become when they are folded. On a
// CPU job the streams are threads. A plain value.

#include <algorithm>
#include <unordered_map>

#include "kernels/kernel_name.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent {

enum class Activity : std::uint8_t { kComputation, kCommunication, kCopy };

struct DeviceInterval {
  static constexpr std::uint16_t kAnyDevice = 0xffff;

  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // not before begin_ns
  std::uint32_t stream = 0;
  std::uint32_t subject = 0;  // of a computation: its signature; of a communication: its CommunicationKey
  Activity activity = Activity::kComputation;
  KernelClass kernel_class = KernelClass::kOther;  // of a computation
  std::uint16_t device = 0;                        // CUDA's number of it in the process
  std::uint32_t correlation = 0;                   // of its launch; 0 = not known

  [[nodiscard]] bool shares_device(const DeviceInterval& other) const {
    return device == other.device || device == kAnyDevice || other.device == kAnyDevice;
  }

  [[nodiscard]] std::uint64_t length_ns() const { return end_ns - begin_ns; }
};

// Puts a device's intervals into the order of their beginnings: CUPTI hands records over in no order, some a second
// late. An interval is held until others have been seen that ended `settle_ns` later, or until `capacity` are held;
// then it is released, and what comes later although it began earlier is dropped and counted. Memory is bounded by
// `capacity`. Pure. Single-threaded.
class IntervalOrder final {
 public:
  explicit IntervalOrder(std::uint64_t settle_ns = 2'500'000'000, std::size_t capacity = std::size_t{1} << 18)
      : settle_ns_(settle_ns), capacity_(capacity) {}

  // False when it came too late. REQUIRES: !full().
  bool add(const DeviceInterval& interval);
  [[nodiscard]] bool full() const { return held_.size() - first_ >= capacity_; }

  // Gives to `sink`, in order, what has settled, of a full order also the older half; at most so many at once.
  static constexpr std::size_t kMostReleased = std::size_t{1} << 15;
  template <typename Sink>
  void release(const Sink& sink) {
    release_before(std::min(settled(), first_ + kMostReleased), sink);
  }
  // Gives all that is held, in order.
  template <typename Sink>
  void finish(const Sink& sink) {
    sort();
    release_before(held_.size(), sink);
  }
  // Forgets what is held; what comes next may be of any time.
  void clear();

  // How often the clock was found set back: what is held was forgotten then.
  [[nodiscard]] std::uint64_t resets() const { return resets_; }
  [[nodiscard]] std::uint64_t late() const { return late_; }
  [[nodiscard]] std::size_t held() const { return held_.size() - first_; }

 private:
  // The index of the first interval that stays.
  [[nodiscard]] std::size_t settled();
  void sort();
  template <typename Sink>
  void release_before(std::size_t end, const Sink& sink) {
    for (; first_ < end; ++first_) {
      released_ns_ = held_[first_].begin_ns;
      sink(held_[first_]);
    }
    forget_released();
  }
  void forget_released();

  std::uint64_t settle_ns_;
  std::size_t capacity_;
  std::vector<DeviceInterval> held_;  // [first_, sorted_) in order, the rest as it came
  std::size_t first_ = 0;
  std::size_t sorted_ = 0;
  std::uint64_t newest_ns_ = 0;
  std::uint64_t released_ns_ = 0;
  std::uint64_t late_ = 0;
  std::uint64_t resets_ = 0;
  std::uint64_t late_in_a_row_ = 0;
};

// The intervals of a job that runs on the host alone: from its own ranges (docs/protocols.md, "Ranges"). Operators'
// passes and the optimizer are computation, collectives and transfers are communication; a stream is a thread. A
// communication within a computation of the same thread hides nothing: the computation is cut around it. Bounded. Pure.
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
