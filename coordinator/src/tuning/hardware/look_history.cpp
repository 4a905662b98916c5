#include "tuning/hardware/look_history.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/numbers.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/racing.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kBefore = 8;  // looks that are kept beside the latest
constexpr double kLeastChange = 0.1;
constexpr double kSurely = 3;  // times the scatter, of a single probe

using Values = std::span<const double>;

double median_of(Values values) {
  return median({values.begin(), values.end()});
}

double scatter_of(Values values) {
  const double middle = median_of(values);
  std::vector<double> off;
  for (const double value : values) off.push_back(std::abs(value - middle));
  return 1.4826 * median(off);
}

// How far all of `now` lie below all of `before`; less than 0: they do not.
double gap_below(Values now, Values before) {
  return *std::ranges::min_element(before) - *std::ranges::max_element(now);
}

// Student's t of two medians: what looks before scatter by tells how sure they are.
double confidence_of_medians(Values before, Values now) {
  constexpr double kLeastScatter = 0.02;
  constexpr double kOfMedian = 1.2533;  // a median's standard error beside a mean's
  const double scatter = std::max(kLeastScatter, scatter_of(before));
  const auto error = [scatter](Values values) {
    return (values.size() > 1 ? kOfMedian : 1) * scatter / std::sqrt(static_cast<double>(values.size()));
  };
  const double t = std::abs(median_of(now) - median_of(before)) / root_of_squares(error(before), error(now));
  return 1 - 2 * (1 - student_share(t, static_cast<double>(before.size() - 1)));
}

}  // namespace

LookHistory::Subject LookHistory::subject_of(const Probe& probe, Of of) {
  return {probe.device, probe.node, probe.peer, probe.level, probe.work, of};
}

void LookHistory::begin_anew(const std::vector<Probe>& probes) {
  series_.clear();
  add(probes);
}

void LookHistory::add(const std::vector<Probe>& probes) {
  for (const Probe& one : probes) {
    if (one.ms > 0) add(one, one.shared_ms > 0 ? Of::kWhole : Of::kPlain, one.ms);
    if (one.device < 0 && one.round_trip_ms > 0) add(one, Of::kRoundTrip, one.round_trip_ms);
  }
}

void LookHistory::add(const Probe& probe, Of of, double ms) {
  Series& series = series_[subject_of(probe, of)];
  series.latest = probe;
  series.log_ms.push_back(std::log(ms));
  if (series.log_ms.size() > kBefore + kAgreeing) series.log_ms.erase(series.log_ms.begin());
}

Finding LookHistory::finding_of(const Series& series, Of of, double before, double now) {
  Finding finding{series.latest, std::exp(before - now)};
  finding.whole = of == Of::kWhole;
  finding.latency = of == Of::kRoundTrip;
  (finding.latency ? finding.probe.round_trip_ms : finding.probe.ms) = std::exp(now);
  if (finding.latency) finding.before_ms = std::exp(before);
  return finding;
}

std::optional<Finding> LookHistory::between_looks(Series& series, Of of) {
  const Values all = series.log_ms;
  if (all.size() < kAgreeing + kLeastBefore) return std::nullopt;
  const Values before = all.first(all.size() - kAgreeing);
  const Values now = all.last(kAgreeing);
  const double least = std::max(kLeastChange, scatter_of(before));
  if (gap_below(now, before) < least && gap_below(before, now) < least) return std::nullopt;
  Finding finding = finding_of(series, of, median_of(before), median_of(now));
  finding.confidence = confidence_of_medians(before, now);
  if (finding.confidence < kNamedFrom) return std::nullopt;
  series.log_ms.erase(series.log_ms.begin(), series.log_ms.end() - kAgreeing);
  return finding;
}

// The probe was off, or what it was of has changed before there were looks to tell.
std::optional<Finding> LookHistory::faster_than_known(const Series& series, Of of, const Probe& known) {
  const Values all = series.log_ms;
  const bool same = of == Of::kRoundTrip || (known.shared_ms > 0) == (of == Of::kWhole);
  const double ms = of == Of::kRoundTrip ? known.round_trip_ms : known.ms;
  if (all.size() < kAgreeing + kLeastBefore || !same || ms <= 0) return std::nullopt;
  const double was = std::log(ms);
  const bool beyond = gap_below(all, {&was, 1}) >= kLeastChange;
  if (!beyond || was - median_of(all) < kSurely * scatter_of(all)) return std::nullopt;
  Finding finding = finding_of(series, of, was, median_of(all));
  finding.confidence = confidence_of_medians(all, {&was, 1});
  if (finding.confidence < kNamedFrom) return std::nullopt;
  return finding;
}

std::vector<Finding> LookHistory::take_changes(const std::vector<Probe>& known) {
  std::vector<Finding> changes;
  for (auto& [subject, series] : series_) {
    const Of of = std::get<Of>(subject);
    std::optional<Finding> found = between_looks(series, of);
    const auto probe =
        std::ranges::find_if(known, [&, wanted = subject](const Probe& one) { return subject_of(one, of) == wanted; });
    if (!found && probe != known.end()) found = faster_than_known(series, of, *probe);
    if (!found || (found->latency && !is_clear_latency(*found))) continue;
    changes.push_back(*found);
  }
  std::ranges::stable_sort(changes, [](const Finding& a, const Finding& b) {
    return std::abs(std::log(a.share)) > std::abs(std::log(b.share));
  });
  return changes;
}

bool LookHistory::may_be_faster() const {
  return std::ranges::any_of(series_, [](const auto& one) {
    const Values all = one.second.log_ms;
    if (all.size() <= kLeastBefore || std::get<Of>(one.first) == Of::kRoundTrip) return false;
    const Values before = all.first(kLeastBefore);
    return gap_below(all.last(1), before) >= std::max(kLeastChange, scatter_of(before));
  });
}

bool LookHistory::is_usual(const Finding& finding) const {
  const Of of = finding.latency ? Of::kRoundTrip : finding.whole ? Of::kWhole : Of::kPlain;
  const auto known = series_.find(subject_of(finding.probe, of));
  if (known == series_.end() || known->second.log_ms.size() < kLeastBefore) return false;
  // From one look to the next: what has changed for good between two of them moves no median.
  std::vector<double> moved;
  const std::vector<double>& all = known->second.log_ms;
  for (std::size_t i = 1; i < all.size(); ++i) moved.push_back(std::abs(all[i] - all[i - 1]));
  return std::abs(std::log(finding.share)) < kSurely * 1.4826 * median(moved);
}

}  // namespace trimtab::coordinator
