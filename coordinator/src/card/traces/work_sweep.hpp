#pragma once

// How a stretch of time is shared between what a traced rank did in it. At every moment one thing counts: on a device
// computation before communication before copies, on a host waiting for data before computation before communication;
// else it idles. So the parts add up to the stretch. Pure. Single-threaded.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::coordinator {

struct WorkShares {
  std::array<std::int64_t, kTracedKinds> exposed_ns{};  // nothing that counts before it ran
  std::array<std::int64_t, kTracedKinds> hidden_ns{};   // communication: computation ran
  std::int64_t data_ns = 0;                             // of a host
  std::int64_t idle_ns = 0;
  std::int64_t for_host_ns = 0;  // of it: what ended the idling was handed out only after it had begun
  // Computation that began in this time.
  std::int64_t kernels = 0;
  std::int64_t kernels_ns = 0;

  [[nodiscard]] std::int64_t of(TracedKind kind) const { return exposed_ns[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::int64_t communication_ns() const;
};

class WorkSweep {
 public:
  // `rank` outlives it.
  explicit WorkSweep(const TracedRank& rank) : rank_(rank) {}

  // REQUIRES: begin_ns <= end_ns, and no call before ended later than begin_ns.
  [[nodiscard]] WorkShares between(std::int64_t begin_ns, std::int64_t end_ns);

 private:
  static constexpr std::size_t kData = kTracedKinds;

  void take_until(std::int64_t end_ns, WorkShares* shares);
  void advance(std::int64_t to_ns, WorkShares* shares);
  [[nodiscard]] std::size_t running(std::size_t place) const;
  void count_waiting_for_host(std::int64_t end_ns, WorkShares& shares) const;

  const TracedRank& rank_;
  std::size_t next_ = 0;       // of its work
  std::size_t next_data_ = 0;  // of its waiting for data
  std::int64_t now_ns_ = 0;
  std::int64_t begin_ns_ = 0;                           // of the stretch that is shared out
  std::array<std::int64_t, kTracedKinds + 1> until_{};  // by kind, and of data: busy up to here
};

// Of these spans (by their beginnings), how much lies in this time; where they overlap once.
[[nodiscard]] std::int64_t covered_ns(std::span<const TracedSpan> spans, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace trimtab::coordinator
