#pragma once

// When a rank communicated, for whoever asks what ran beside it. Bounded: beyond kMost the older half is forgotten.
// Pure. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab::agent {

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
