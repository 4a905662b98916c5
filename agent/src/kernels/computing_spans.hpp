#pragma once

// When a rank's device computed, for whoever asks what ran beside a communication. Kernels that follow each other
// closely are one span, however many streams they ran on and in whichever order their records came. Bounded: of many
// spans the oldest are forgotten. Pure. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab::agent {

class ComputingSpans final {
 public:
  static constexpr std::size_t kMost = 8192;
  // Between two kernels of a stream: no pause of the computation.
  static constexpr std::uint64_t kGapNs = 5'000;

  void add(std::uint64_t begin_ns, std::uint64_t end_ns);
  // Of this time, how much was computed.
  [[nodiscard]] std::uint64_t computed(std::uint64_t begin_ns, std::uint64_t end_ns);
  // Whether all of this time lies between the oldest span that is known and the end of the latest kernel.
  [[nodiscard]] bool cover(std::uint64_t begin_ns, std::uint64_t end_ns);
  // The end of the latest kernel; 0 = none.
  [[nodiscard]] std::uint64_t known_until() const { return known_until_; }
  void clear() { *this = {}; }

 private:
  struct Span {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  void settle();

  std::vector<Span> spans_;  // apart from each other, in order
  std::vector<Span> fresh_;  // as they came
  std::uint64_t known_until_ = 0;
  std::uint64_t forgotten_until_ = 0;  // nothing is known of what ended before
};

}  // namespace trimtab::agent
