// Costs over links that a drift has changed: what probes say of them scales all alike, and a link's latency and its
// bandwidth need not change alike. Where trials' overhead has room for it, they are measured by the job's benchmarks.

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kUsualCostMs = 4000;  // to measure one, where the job's own profiling does not say

}  // namespace

// Ranks stand still for the benchmarks and a launch, and steps since the last snapshot are trained once more: these
// nobody knows beforehand.
double Tuning::remeasuring_ms(std::int32_t costs) const {
  const bool known = state_.costs_wanted > 0 && state_.profiling_ns > 0;
  const double one_ms = known ? static_cast<double>(state_.profiling_ns) * 1e-6 / state_.costs_wanted : kUsualCostMs;
  return costs * one_ms + state_.launch_ms;
}

// Once after a drift, when the first search has told how many there are. True when the search is to be made again.
bool Tuning::remeasure_links(const SearchReply& reply) {
  const bool asked = !state_.drifts.empty() && state_.drifts.back().links && state_.trials_made() == 0;
  if (!asked || reply.costs_stale == 0 || !state_.changed_links.mark.empty()) return false;
  // A scheduler may let a launch wait for hours.
  if (state_.job.mode != JobMode::kAuto || state_.job.benchmark.empty() || held() || is_submitted()) return false;
  const double expected_ms = remeasuring_ms(reply.costs_stale);
  const double left_ms = state_.allowed_overhead_ms() - state_.overhead_ms();
  if (expected_ms > left_ms) {
    note("drift", "they are not measured anew: that takes about " + format_ms(expected_ms) +
                      " of the job's time, and " + format_ms(std::max(0.0, left_ms)) +
                      " are left of what trials may cost (trials.overhead)");
    return false;
  }
  for (const auto& [level, share] : link_shares(state_.first_probes, state_.last_probes)) {
    state_.changed_links.levels.insert(level);
  }
  state_.changed_links.mark = "changed-" + std::to_string(now_.wall.count());
  state_.changed_links.due = true;
  transition();
  note("drift", "costs over the links that have changed are measured anew, which takes about " +
                    format_ms(expected_ms) + "; then the job goes on from its last snapshot");
  decided("measure costs over changed links", state_.drifts.back().what);
  remeasures_ = true;
  if (!idle_since_) idle_since_ = now_.monotonic;
  kill_ranks(AfterKill::kRelaunch);
  return true;
}

void Tuning::profile_links() {
  state_.changed_links.due = false;
  state_.changed_links.measuring = true;
  // As a launch has one, of whatever runs on the job's devices.
  state_.launch = std::max(state_.launch, launch_seen_) + 1;
  profile();
}

}  // namespace trimtab::coordinator
