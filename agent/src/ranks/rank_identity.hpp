#pragma once

// Which rank is meant: of a job, or of a run of it that stands apart (a variant). A plain value.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace trimtab::agent {

// The process that has a scheduler start a launch's ranks (`submit` in job.toml) is kept as a rank of this number.
inline constexpr std::uint32_t kLauncher = std::numeric_limits<std::uint32_t>::max();

struct RankIdentity {
  std::string job;
  std::string variant;  // empty = the job itself
  std::uint32_t rank = 0;

  auto operator<=>(const RankIdentity&) const = default;
};

// "gpt-cpu rank 0", "gpt-cpu@untuned rank 0", "gpt-cpu launcher".
[[nodiscard]] inline std::string describe(const RankIdentity& id) {
  const std::string who = id.rank == kLauncher ? " launcher" : " rank " + std::to_string(id.rank);
  return id.job + (id.variant.empty() ? "" : "@" + id.variant) + who;
}

}  // namespace trimtab::agent
