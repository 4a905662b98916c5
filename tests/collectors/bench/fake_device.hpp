#pragma once

// A GPU that is a formula: work takes as long as its bytes, two streams slow each other down by known factors, and it
// fails when told to.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "device.hpp"

namespace trimtab::bench {

struct FakeSettings {
  double alpha = 1.0;  // slowdown of stream 0 while stream 1 runs
  double beta = 1.0;   // of stream 1 while stream 0 runs
  double noise = 0.0;  // relative standard deviation of a launch
  double bytes_per_ns = 1000;
  double least_ns = 4000;  // of a kernel
  Bytes memory = Bytes{1} << 40;
  int fail_prepare = -1;  // the n-th call, from 0
  int fail_run = -1;
  // The clock at the n-th reading.
  std::function<std::uint32_t(int)> sm_mhz = [](int) { return 1500U; };
  // Whether the first launch of the n-th run of two ends at once, as a cover must not.
  std::function<bool(int)> cover_ends = [](int) { return false; };
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeSettings settings, std::uint64_t seed = 1);

  [[nodiscard]] const DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] Result<std::unique_ptr<Workload>> prepare(const Chain& chain) override;
  [[nodiscard]] Result<std::vector<Span>> run(std::span<const Launch> launches) override;
  [[nodiscard]] ClockReading clocks() override;

  DeviceFacts facts_;
  std::vector<Chain> prepared;
  int prepares = 0;
  int runs = 0;
  int readings = 0;
  std::int32_t most_kernels = 0;     // of one run
  std::vector<std::int64_t> delays;  // of second launches, each once

 private:
  [[nodiscard]] double length(const Launch& launch);

  FakeSettings settings_;
  Random random_;
  int pairs_ = 0;
};

// Ranks of a group as large as one likes, of which this is one; the others agree, or refuse for the first `refusals`
// questions.
class FakeRanks final : public Ranks {
 public:
  FakeRanks(std::int32_t rank, std::int32_t size, int refusals = 0) : rank_(rank), size_(size), refusals_(refusals) {}
  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t size() const override { return size_; }
  [[nodiscard]] std::string no_collectives() const override { return ""; }
  [[nodiscard]] Result<bool> all(bool mine) override { return refusals_-- <= 0 && mine; }
  [[nodiscard]] Result<std::int64_t> largest(std::int64_t mine) override { return mine; }

 private:
  std::int32_t rank_;
  std::int32_t size_;
  int refusals_;
};

// A model of one attention, one feedforward, one embedding, one head and one operator of no known kind.
[[nodiscard]] std::string sample_model();

}  // namespace trimtab::bench
