#pragma once

// The seam between the benchmarks and a GPU: everything that is a device call is behind it, and nothing else is. Tests
// put a device in its place that fails when told to. One thread at a time.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "kernels.hpp"

namespace trimtab::bench {

struct DeviceFacts {
  std::string name;
  std::string uuid;
  std::string driver;
  std::int32_t index = 0;
  std::int32_t count = 1;  // GPUs that this process sees
  std::int32_t multiprocessors = 0;
  Bytes memory_bytes = 0;
  Bytes cache_bytes = 0;      // L2
  Bytes process_bytes = 0;    // what context and libraries took of the device's memory; 0 = could not be measured
  bool clocks_known = false;  // clocks() reads something
};

// At one moment. Zeros where the driver does not say.
struct ClockReading {
  std::uint32_t sm_mhz = 0;
  std::uint32_t power_milliwatts = 0;
  std::uint64_t throttle_reasons = 0;  // NVML's bits
};

// A chain that is ready to be launched, with its own buffers: several sets, together beyond the L2, used in turn.
class Workload {
 public:
  virtual ~Workload() = default;
};

// On one of two streams that run side by side: 0 has the lower priority, 1 the higher, as communication has.
struct Launch {
  Workload* workload = nullptr;
  std::int32_t stream = 0;
  std::int32_t times = 1;
  std::int64_t delay_ns = 0;  // from the run's start; its span begins afterwards
};

// On the device's clock, from a common start of the run, in nanoseconds.
struct Span {
  double begin_ns = 0;
  double end_ns = 0;
  [[nodiscard]] double length_ns() const { return end_ns - begin_ns; }
};

class Device {
 public:
  // Launches of one run at most: all of them must fit into the queues of the device before it starts.
  static constexpr std::int32_t kMaxKernelsPerRun = 256;

  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceFacts& facts() const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Workload>> prepare(const Chain& chain) = 0;
  // Queues everything, lets it start at once, and returns when all has ended: one span for each launch, in order. A
  // failure may be final for the device: no call after one is promised to work.
  [[nodiscard]] virtual Result<std::vector<Span>> run(std::span<const Launch> launches) = 0;
  [[nodiscard]] virtual ClockReading clocks() = 0;
};

// The other ranks of this benchmark, if there are any.
class Ranks {
 public:
  virtual ~Ranks() = default;
  [[nodiscard]] virtual std::int32_t rank() const = 0;
  [[nodiscard]] virtual std::int32_t size() const = 0;
  // Why collectives cannot run here; empty where they can.
  [[nodiscard]] virtual std::string no_collectives() const = 0;
  // Whether every rank says yes; all ranks call it at the same point. Also a barrier.
  [[nodiscard]] virtual Result<bool> all(bool mine) = 0;
  // The largest value of all ranks.
  [[nodiscard]] virtual Result<std::int64_t> largest(std::int64_t mine) = 0;
};

// Ranks that cannot exchange anything: one alone, or each measures by itself.
class NoOtherRanks final : public Ranks {
 public:
  explicit NoOtherRanks(std::int32_t rank = 0, std::int32_t size = 1,
                        std::string why = "collectives need two ranks on two GPUs, there is one rank")
      : rank_(rank), size_(size), why_(std::move(why)) {}
  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t size() const override { return size_; }
  [[nodiscard]] std::string no_collectives() const override { return why_; }
  [[nodiscard]] Result<bool> all(bool mine) override { return mine; }
  [[nodiscard]] Result<std::int64_t> largest(std::int64_t mine) override { return mine; }

 private:
  const std::int32_t rank_;
  const std::int32_t size_;
  const std::string why_;
};

}  // namespace trimtab::bench
