#pragma once

// Which rank is meant: of a job, or of a run of it that stands apart (a variant). A plain value.

#include <compare>
#include <cstdint>
#include <string>

namespace trimtab::agent {

struct RankIdentity {
  std::string job;
  std::string variant;  // empty = the job itself
  std::uint32_t rank = 0;

  auto operator<=>(const RankIdentity&) const = default;
};

// "gpt-cpu rank 0", "gpt-cpu@untuned rank 0".
[[nodiscard]] inline std::string describe(const RankIdentity& id) {
  return id.job + (id.variant.empty() ? "" : "@" + id.variant) + " rank " + std::to_string(id.rank);
}

}  // namespace trimtab::agent
