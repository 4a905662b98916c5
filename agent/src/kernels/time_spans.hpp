#pragma once

// When a rank's device computed, for whoever asks what ran beside a communication. Kernels that follow each other
// closely are one span, however many streams they ran on and in whichever order their records came. Bounded: of many
// spans the oldest are forgotten. Pure. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <optional>
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

// Stretches of time in which a process's device records are not complete: collectors that lowered their detail
// (kWindow) and rings that overflowed. Sums over such a time would be too small. Bounded: of many windows the oldest
// are forgotten. Pure. Single-threaded.
class LostWindows final {
 public:
  static constexpr std::size_t kMost = 4096;

  // Windows that touch become one.
  void add(std::uint64_t begin_ns, std::uint64_t end_ns);
  // Whether some of [begin_ns, end_ns] is lost.
  [[nodiscard]] bool overlap(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  [[nodiscard]] std::uint64_t added() const { return added_; }
  [[nodiscard]] std::uint64_t lost_ns() const { return lost_ns_; }

 private:
  struct Window {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  std::vector<Window> windows_;  // apart from each other, in order
  std::uint64_t added_ = 0;
  std::uint64_t lost_ns_ = 0;
};

// When a rank communicated, for whoever asks what ran beside it. Bounded: beyond kMost the older half is forgotten.
// Pure. Single-threaded.
class CommunicationTimes final {
 public:
  static constexpr std::size_t kMost = 16384;

  void add(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread);
  // Of this time, how much some communication took, each counted; those of the thread `but` do not count.
  [[nodiscard]] std::uint64_t beside(std::uint64_t begin_ns, std::uint64_t end_ns,
                                     std::optional<std::uint32_t> but = std::nullopt);
  // Whether that is more than slightly so; so it is of any part of a time, too.
  static constexpr double kSlight = 0.02;
  [[nodiscard]] static bool more_than_slight(std::uint64_t part_ns, std::uint64_t of_ns) {
    return static_cast<double>(part_ns) > kSlight * static_cast<double>(of_ns);
  }
  [[nodiscard]] bool ran_beside(std::uint64_t begin_ns, std::uint64_t end_ns,
                                std::optional<std::uint32_t> but = std::nullopt);
  // What ended until then is not asked for any more.
  void forget_until(std::uint64_t ns);

 private:
  struct Time {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint32_t thread = 0;
  };
  void order();

  std::vector<Time> times_;
  std::size_t ordered_ = 0;       // of them are in the order of their beginnings
  std::uint64_t longest_ns_ = 0;  // no time is longer
};

}  // namespace trimtab::agent
