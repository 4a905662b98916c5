// Ranks that wait for their next batch.

#include <algorithm>
#include <string>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kLeastGain = 0.09;
constexpr double kSurely = 0.06;
// Where workers load and ranks lack CPUs, a batch that is ready still comes late.
constexpr double kMoreWhereCrowded = 0.15;
constexpr double kOneRank = 2;  // times what the others wait: it is about that rank alone

// What a step would take less without any waiting for data: that of the rank that comes last.
std::vector<double> saved(const Rows& rows) {
  return rows.series([&rows](std::size_t row) {
    double with = 0;
    for (std::size_t i = 0; i < rows.ranks().size(); ++i)
      with = std::max(with, rows.at(row, i).own + rows.at(row, i).data);
    return with - rows.largest(row, &Cell::own);
  });
}

// The rank that waits by itself, if one does.
std::optional<std::int32_t> alone(const Rows& rows) {
  if (rows.ranks().size() < 2) return {};
  std::vector<double> waits;
  for (std::size_t i = 0; i < rows.ranks().size(); ++i) {
    double sum = 0;
    for (std::size_t row = 0; row < rows.count(); ++row) sum += rows.at(row, i).data;
    waits.push_back(sum);
  }
  const auto most = static_cast<std::size_t>(std::ranges::max_element(waits) - waits.begin());
  const double its = waits[most];
  waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(most));
  if (its < kOneRank * *std::ranges::max_element(waits)) return {};
  return rows.ranks()[most];
}

std::string advice(const JobLook& job) {
  const std::string more = "DataLoader(num_workers=";
  if (job.facts.workers == 0) {
    return more +
           "2, persistent_workers=True, prefetch_factor=2): with num_workers=0 the training process loads its own "
           "batches; cheaper decoding or a cache where no CPU is free";
  }
  if (job.facts.workers > 0) {
    return more + std::to_string(2 * job.facts.workers) +
           ", prefetch_factor=4, persistent_workers=True), it has num_workers=" + std::to_string(job.facts.workers) +
           "; cheaper decoding, a cache or a faster disk where no CPU is free";
  }
  return "load batches ahead: DataLoader(num_workers=2, prefetch_factor=2, persistent_workers=True), or cheaper "
         "decoding";
}

}  // namespace

Found find_slow_data(const JobLook& job) {
  const Rows& rows = job.steps;
  if (!rows.are_enough()) return {};
  Estimate gain = estimate_of_sums(saved(rows), rows.series([&rows](std::size_t row) { return rows.wall(row); }));
  // What the host waits for counts as far as the device idles meanwhile.
  if (job.on_device && job.devices.count() > 0) {
    const Rows& devices = job.devices;
    const double idle = median_of(
        devices.series([&](std::size_t row) { return devices.largest(row, &Cell::idle) / devices.wall(row); }));
    gain = {std::min(gain.value, idle), std::min(gain.low, idle), std::min(gain.high, idle)};
  }
  const double more = job.facts.workers > 0 ? kMoreWhereCrowded * job.crowding() : 0;
  if (gain.value < kLeastGain + more || gain.low < kSurely + more) return {};
  const std::optional<std::int32_t> rank = alone(rows);
  api::CardFinding finding = new_finding(api::FindingName::kSlowData, gain, rank);
  const std::string who =
      rank ? "rank " + std::to_string(*rank) + job.node_words(*rank) + " waits, and the others for it,"
           : "training waits";
  finding.why = who + " " + format_percent(gain.value) + " of a step (" + format_percent(gain.low) + " to " +
                format_percent(gain.high) + ") for its next batch";
  finding.advice = advice(job);
  return finding;
}

}  // namespace trimtab::coordinator
