#pragma once

// A seeded generator that gives the same numbers on every platform (the standard distributions do not).
// xoshiro256** by Blackman and Vigna, seeded through splitmix64. A value: copy it to fork a stream. Not thread-safe.

#include <array>
#include <cstdint>

namespace trimtab {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  [[nodiscard]] std::uint64_t next();
  // Uniform in [0, bound). REQUIRES: bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high], both included. REQUIRES: low <= high.
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high);
  // Uniform in [0, 1).
  [[nodiscard]] double uniform();
  // Standard normal, by Box and Muller.
  [[nodiscard]] double normal();

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace trimtab
