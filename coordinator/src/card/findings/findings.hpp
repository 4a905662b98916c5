#pragma once

// What could make a job's steps shorter: each looks at one thing, and says nothing where the evidence is not clear.
// docs/card.md has their rules in words. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "card/job_look.hpp"
#include "schema/api/card.hpp"

namespace trimtab::coordinator {

// Without its words. No gain is less than 0.
[[nodiscard]] api::CardFinding new_finding(api::FindingName name, const Estimate& gain,
                                           std::optional<std::int64_t> rank = {});

using Found = std::optional<api::CardFinding>;

[[nodiscard]] Found find_slow_data(const JobLook& job);
[[nodiscard]] Found find_slow_rank(const JobLook& job);
[[nodiscard]] Found find_small_microbatch(const JobLook& job);
[[nodiscard]] Found find_everything_recomputed(const JobLook& job);
// From what the job's own connections carry; where that tells nothing, from probes.
[[nodiscard]] Found find_slow_link(const JobLook& job);
[[nodiscard]] Found find_slow_link_in_use(const JobLook& job);
[[nodiscard]] Found find_exposed_communication(const JobLook& job);
[[nodiscard]] Found find_launch_bound(const JobLook& job);
[[nodiscard]] Found find_memory_left(const JobLook& job);

// The best first, without those that another one explains; `healthy` where there is none. Nothing at all where there is
// not enough to look at.
[[nodiscard]] std::vector<api::CardFinding> findings_of(const JobLook& job);

// What communication ranks wait for even where all come at the same time: that of the rank that waits least.
[[nodiscard]] Estimate pure_communication(const JobLook& job);

}  // namespace trimtab::coordinator
