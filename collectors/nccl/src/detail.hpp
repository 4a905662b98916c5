#pragma once

// How much of its collectives a process lets NCCL time. NCCL reads the activation mask at every operation, through the
// pointer that it gave us, so the detail changes while the job runs, without a restart. Any thread.
//
// Timing costs something on the device too, and only an empty mask spares that. So "sampled" opens a window of one
// second in every eight, by CLOCK_REALTIME: ranks whose clocks agree within a fraction of a second time the same
// collectives, without having spoken to each other.

#include <atomic>
#include <cstdint>

namespace trimtab::nccl {

enum class Detail : int { kOff, kSampled, kFull };

inline constexpr std::uint64_t kWindowNs = 1'000'000'000;
inline constexpr std::uint64_t kWindows = 8;
constexpr bool window_open(std::uint64_t realtime_ns) {
  return realtime_ns / kWindowNs % kWindows == 0;
}
// Until the window opens or closes next.
constexpr std::uint64_t window_change_in_ns(std::uint64_t realtime_ns) {
  const std::uint64_t period_ns = window_open(realtime_ns) ? kWindowNs : kWindowNs * kWindows;
  return period_ns - realtime_ns % period_ns;
}

class DetailControl {
 public:
  static constexpr int kMasks = 8;  // NCCL's own; one for each copy of NCCL in the process

  constexpr DetailControl() = default;

  // The user's choice. It takes effect at once. The windows of kSampled open and close when keep() is called; until it
  // is, for want of a thread that would, one is open.
  void set(Detail detail);
  // To be called when a window changes while the detail is kSampled. Cheap.
  void keep(std::uint64_t realtime_ns);
  // Whether the budget of the process's collectors leaves collectives in.
  void follow_budget(bool allows);
  [[nodiscard]] Detail detail() const { return static_cast<Detail>(detail_.load(std::memory_order_relaxed)); }

  // What the process's own switch (TRIMTAB=0, no agent named) leaves of us: nothing.
  void allow(bool allowed) { allowed_.store(allowed, std::memory_order_relaxed); }
  // Another mask that we keep; false when there are too many. Writes it.
  bool adopt(int* mask);
  // No communicator is left: NCCL may be unloaded.
  void forget();
  // What another plugin behind ours wants to see as well.
  void want_also(int mask);

 private:
  [[nodiscard]] int wanted() const;
  void write();

  std::atomic<int> detail_{static_cast<int>(Detail::kFull)};
  std::atomic<bool> allowed_{true};
  std::atomic<bool> affordable_{true};
  std::atomic<bool> open_{true};
  std::atomic<int> also_{0};
  std::atomic<int*> masks_[kMasks] = {};
};

// From TRIMTAB_NCCL_DETAIL; kFull for nullptr and for what is none of them.
Detail parse_detail(const char* text);

}  // namespace trimtab::nccl
