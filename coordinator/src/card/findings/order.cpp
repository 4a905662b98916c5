// All findings of a job, the best first.

#include <algorithm>
#include <string>
#include <utility>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

bool has(const std::vector<api::CardFinding>& all, api::FindingName name) {
  return std::ranges::any_of(all, [name](const api::CardFinding& one) { return one.name == name; });
}

// Fewer, larger microbatches communicate less often and hand out fewer kernels. A slow link is why communication is
// exposed.
void leave_out_explained(std::vector<api::CardFinding>& all) {
  const bool larger = has(all, api::FindingName::kSmallMicrobatch);
  const bool link = has(all, api::FindingName::kSlowLink);
  std::erase_if(all, [larger, link](const api::CardFinding& one) {
    if (one.name == api::FindingName::kExposedCommunication) return larger || link;
    return larger && one.name == api::FindingName::kLaunchBound;
  });
}

// Of the best first. What is assumed of communication comes after all that is measured; so does what batches of one
// sample cost a loader, where larger ones are the advice.
void put_in_order(std::vector<api::CardFinding>& all) {
  const bool larger = has(all, api::FindingName::kSmallMicrobatch);
  std::ranges::stable_sort(all, std::greater(), [larger](const api::CardFinding& one) {
    const bool later =
        one.name == api::FindingName::kExposedCommunication || (one.name == api::FindingName::kSlowData && larger);
    return std::pair(!later, one.gain);
  });
}

api::CardFinding healthy(const JobLook& job) {
  const Rows& rows = job.work();
  api::CardFinding finding = new_finding(api::FindingName::kHealthy, {});
  finding.why = "looked at: ";
  if (rows.ranks().size() > 1) {
    finding.why += "the ranks' own work, step by step; exposed communication (" +
                   format_percent(pure_communication(job).value) + " of a step at least); ";
  }
  if (job.steps.are_enough()) {
    const double data = median_of(job.steps.series(
        [&job](std::size_t row) { return job.steps.largest(row, &Cell::data) / job.steps.wall(row); }));
    finding.why += "waiting for data (" + format_percent(data) + "); ";
  }
  finding.why += job.evidence.traced ? "kernels, and idling between them" : "microbatches; recomputation";
  finding.advice = "nothing stands out: what is left is the computation itself";
  if (!job.on_device) return finding;
  constexpr double kMuch = 0.10;
  double idle = 0;
  double wall = 0;
  for (std::size_t row = 0; row < rows.count(); ++row) {
    idle += rows.mean(row, &Cell::idle);
    wall += rows.wall(row);
  }
  if (idle >= kMuch * wall) {
    finding.advice = "the device idles " + format_percent(idle / wall) +
                     " of a step, and no rule says why: look in a timeline (https://ui.perfetto.dev) at what the host "
                     "does meanwhile";
  }
  return finding;
}

}  // namespace

api::CardFinding new_finding(api::FindingName name, const Estimate& gain, std::optional<std::int64_t> rank) {
  api::CardFinding finding;
  finding.name = name;
  finding.rank = rank;
  finding.gain = std::max(gain.value, 0.0);
  finding.low = std::max(gain.low, 0.0);
  finding.high = std::max(gain.high, 0.0);
  return finding;
}

std::vector<api::CardFinding> findings_of(const JobLook& job) {
  if (!job.work().are_enough()) return {};
  std::vector<api::CardFinding> all;
  const auto add = [&all](const Found& found) {
    if (found) all.push_back(*found);
  };
  add(find_slow_data(job));
  add(find_slow_rank(job));
  add(find_slow_link(job));
  add(find_small_microbatch(job));
  add(find_everything_recomputed(job));
  add(find_launch_bound(job));
  add(find_exposed_communication(job));
  leave_out_explained(all);
  put_in_order(all);
  if (all.empty()) all.push_back(healthy(job));
  add(find_memory_left(job));
  return all;
}

}  // namespace trimtab::coordinator
