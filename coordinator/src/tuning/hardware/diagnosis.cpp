#include "tuning/hardware/diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/numbers.hpp"
#include "schema/cluster.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/trial/racing.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kLeastChange = 0.1;         // of a speed: less explains no drift
constexpr double kClearly = 6;               // standard deviations of all probes' ratios
constexpr double kMostNoise = 0.3;           // more than that is a change, however the others scatter
constexpr double kLeastScatter = 0.02;       // of a probe, whatever its takes say
constexpr double kLeastOfRoundTrips = 0.15;  // … the shortest of some: a wake-up more or less
constexpr std::size_t kNamed = 3;            // in a text
constexpr double kNamedUse = 0.1;            // of a link

constexpr std::string_view kTraining = "training ";

using Subject = std::tuple<std::int32_t, std::string, std::string, std::string, std::string>;

Subject subject_of(const Probe& probe) {
  return {probe.device, probe.node, probe.peer, probe.level, probe.work};
}

Probe middle_take(std::vector<Probe> takes) {
  std::ranges::sort(takes, {}, &Probe::ms);
  Probe middle = takes[takes.size() / 2];
  if (middle.ms <= 0) return middle;
  const auto reach = [&middle](double ms, double middle_ms) {
    if (ms <= 0 || middle_ms <= 0) return;
    middle.shortest = std::min(middle.shortest, ms / middle_ms);
    middle.longest = std::max(middle.longest, ms / middle_ms);
  };
  for (const Probe& one : takes) {
    if (one.round_trip_ms > 0) middle.round_trip_ms = std::min(middle.round_trip_ms, one.round_trip_ms);
    if (one.ms <= 0) continue;
    reach(one.ms, middle.ms);
    reach(one.shared_ms, middle.shared_ms);
  }
  return middle;
}

// Of work that says how fast a device computes, whatever the job.
bool tells_speed(const Probe& probe) {
  return probe.device >= 0 && probe.ms > 0 && (probe.work == "computation" || probe.work == "clock");
}

double mean_ms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// All devices of the node at once.
bool of_cpus(const Probe& probe) {
  return probe.work == "computation" || probe.work == "memory";
}

// Where only one of two probes of a link tells what others used of it, what both had beside others is compared.
Finding compared(const Probe& before, const Probe& now) {
  const bool whole = before.shared_ms > 0 && now.shared_ms > 0;
  const auto ms = [whole](const Probe& one) { return !whole && one.shared_ms > 0 ? one.shared_ms : one.ms; };
  const auto spread = [whole](const Probe& one) {
    return !whole && one.shared_ms > 0 ? one.shared_spread : one.spread;
  };
  Finding finding{now, ms(before) / ms(now), std::max(spread(before), spread(now)), whole};
  const double ratio = std::log(finding.share);
  finding.apart =
      std::max(-ratio + std::log(now.shortest / before.longest), ratio + std::log(before.shortest / now.longest));
  return finding;
}

// Each usable probe of now, beside the one before of the same.
std::vector<std::pair<const Probe*, const Probe*>> paired(const std::vector<Probe>& before,
                                                          const std::vector<Probe>& now,
                                                          const std::function<bool(const Probe&)>& is_usable) {
  std::map<Subject, const Probe*> known;
  for (const Probe& one : before) known[subject_of(one)] = &one;
  std::vector<std::pair<const Probe*, const Probe*>> pairs;
  for (const Probe& one : now) {
    const auto found = known.find(subject_of(one));
    if (found == known.end() || !is_usable(*found->second) || !is_usable(one)) continue;
    pairs.emplace_back(found->second, &one);
  }
  return pairs;
}

// The share of its earlier speed of each probe of now.
std::vector<Finding> compared(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all;
  for (const auto& [earlier, one] : paired(before, now, [](const Probe& probe) { return probe.ms > 0; })) {
    all.push_back(compared(*earlier, *one));
  }
  return all;
}

// A round trip that waits behind what others send says nothing of the link.
bool tells_latency(const Probe& probe) {
  constexpr double kMostUsed = 0.5;
  return probe.device < 0 && probe.round_trip_ms > 0 && probe.used <= kMostUsed;
}

std::vector<Finding> compared_round_trips(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all;
  for (const auto& [earlier, one] : paired(before, now, tells_latency)) {
    const double share = earlier->round_trip_ms / one->round_trip_ms;
    all.push_back({*one, share, 0, false, true, earlier->round_trip_ms});
  }
  return all;
}

// The logarithm of a share from which on it is a change. Most probes are of what nothing has happened to, so the median
// of all but the farthest says how far they scatter; where it says that most have changed, that is no noise.
double clear_change(const std::vector<Finding>& all) {
  std::vector<double> off;
  for (const Finding& one : all) off.push_back(std::abs(std::log(one.share)));
  if (off.size() > 3) off.erase(std::ranges::max_element(off));
  const double sigma = off.size() < 3 ? 0 : 1.4826 * median(off);
  return sigma > kLeastChange ? kLeastChange : std::clamp(kClearly * sigma, kLeastChange, kMostNoise);
}

bool is_clear(const Finding& one, double least) {
  return std::abs(std::log(one.share)) >= std::max(least, std::log1p(one.spread)) && one.apart >= kLeastChange;
}

// A variance, and how well it is known.
struct Part {
  double variance = 0;
  double degrees = 1e6;
};

// Of the middle one of three takes, on logarithms: by their range, or by how far it lies from the one on the other
// probe's side, where that is less. A take beyond the middle one speaks for the change, however far it lies.
double take_variance(const Probe& probe, double middle_beside_take) {
  constexpr double kOfRange = 1.69;   // a range of three beside their standard deviation
  constexpr double kOfGap = 0.846;    // … the middle one's distance from an outer one
  constexpr double kOfMiddle = 0.67;  // … and the middle one's deviation
  const double by_range = std::log(probe.longest / probe.shortest) / kOfRange;
  const double deviation = kOfMiddle * std::min(by_range, std::log(middle_beside_take) / kOfGap);
  return deviation * deviation;
}

double takes_variance(const Probe& before, const Probe& now, bool slower) {
  return slower ? take_variance(before, before.longest) + take_variance(now, 1 / now.shortest)
                : take_variance(before, 1 / before.shortest) + take_variance(now, now.longest);
}

// Student's t, with Welch's degrees of freedom, of each ratio beside what it scatters by: its takes, its repetitions,
// and all others' ratios, most of which are of what nothing has happened to. Each of so many may be off by luck
// (Bonferroni).
void judge_confidence(const std::vector<Probe>& before, double least_scatter, std::vector<Finding>& all) {
  // As many as make 95 % hold on recorded noise, where takes are no normal numbers (look_history_test.cpp).
  constexpr double kDegreesOfTakes = 8;
  std::vector<double> off;
  for (const Finding& one : all) off.push_back(std::abs(std::log(one.share)));
  const double known = off.size() < 3 ? 0 : 1.4826 * median(off);
  const double others = known > kLeastChange ? 0 : known;
  for (Finding& one : all) {
    const auto earlier = std::ranges::find_if(before, [&one](const Probe& of) { return same_subject(of, one.probe); });
    const bool scatters = !one.latency && earlier != before.end();
    const double takes = scatters ? takes_variance(*earlier, one.probe, one.share < 1) : 0;
    const Part parts[] = {{least_scatter * least_scatter},
                          {takes, kDegreesOfTakes},
                          {others * others, static_cast<double>(std::max<std::size_t>(off.size(), 2) - 1)}};
    double variance = 0;
    double inverse = 0;
    for (const Part& part : parts) {
      variance += part.variance;
      inverse += part.variance * part.variance / part.degrees;
    }
    const double t = std::abs(std::log(one.share)) / std::sqrt(variance);
    const double by_luck = 2 * (1 - student_share(t, variance * variance / inverse));
    one.confidence = std::max(0.0, 1 - by_luck * static_cast<double>(all.size()));
  }
}

// What ranks take longer for in their steps while a link has changed, or seems to have, is named where it is more than
// the others'.
void judge_beside_others(std::vector<Finding>& found, const std::vector<Finding>& all) {
  if (std::ranges::none_of(found, &Finding::is_link)) return;
  for (Finding& one : found) {
    if (!in_training(one.probe)) continue;
    std::vector<double> others;
    for (const Finding& other : all) {
      const bool counts = in_training(other.probe) && other.probe.device != one.probe.device;
      if (counts) others.push_back(std::log(other.share));
    }
    const double beyond = others.empty() ? 0 : std::log(one.share) - median(others);
    if (std::abs(beyond) < kLeastChange) one.confidence = 0;
  }
}

std::string device_words(const Probe& probe, const std::string& share) {
  const std::string device = "device " + std::to_string(probe.device) + " of node " + probe.node;
  if (probe.work == "computation") return "the CPUs of node " + probe.node + " compute at " + share + " of their speed";
  if (probe.work == "memory") return "the CPUs of node " + probe.node + " move memory at " + share + " of their speed";
  if (probe.work == "clock") return device + " runs at " + share + " of its clock";
  if (in_training(probe)) return device + " computes its part of a step at " + share + " of its speed";
  return device + " is at " + share + " of its speed";
}

std::string use_words(const Finding& one) {
  if (!one.whole || one.probe.used < kNamedUse) return "";
  return ", of which others, the job among them, used " + format_number(std::round(100 * one.probe.used)) +
         " % while it was probed";
}

std::string link_name(const Probe& probe) {
  if (probe.peer.empty()) return "the links inside of node " + probe.node;
  return "the link of node " + probe.node + " to " + probe.peer;
}

std::string latency_words(const Finding& one) {
  return "a round trip over " + link_name(one.probe) + " takes " + format_ms(one.probe.round_trip_ms) + ", " +
         format_ms(one.before_ms) + " before";
}

std::string words(const Finding& one) {
  if (one.latency) return latency_words(one);
  const Probe& probe = one.probe;
  const std::string share = format_number(std::round(100 * one.share)) + " %";
  const std::string remark = probe.remark.empty() ? "" : " (" + probe.remark + ")";
  if (!one.is_link()) return device_words(probe, share) + remark;
  if (probe.peer.empty()) return link_name(probe) + " are at " + share + " of their bandwidth" + remark;
  return link_name(probe) + " is at " + share + " of its bandwidth" + use_words(one) + remark;
}

}  // namespace

bool same_subject(const Probe& a, const Probe& b) {
  const auto subject = [](const Probe& of) { return std::tie(of.device, of.node, of.peer, of.level, of.work); };
  return subject(a) == subject(b);
}

std::vector<Probe> middle_of(const std::vector<std::vector<Probe>>& takes) {
  if (takes.size() == 1) return takes.front();
  std::map<Subject, std::vector<Probe>> by_subject;
  for (const auto& take : takes) {
    for (const Probe& one : take) by_subject[subject_of(one)].push_back(one);
  }
  std::vector<Probe> middle;
  for (const auto& [subject, of_subject] : by_subject) middle.push_back(middle_take(of_subject));
  return middle;
}

std::string training_work(const std::string& plan_hash) {
  return std::string(kTraining) + plan_hash;
}

bool in_training(const Probe& probe) {
  return probe.work.starts_with(kTraining);
}

std::optional<double> speed_beside_others(const std::string& node, const std::set<std::string>& without,
                                          const std::vector<Probe>& probes) {
  std::vector<double> here;
  std::vector<double> others;
  for (const Probe& one : probes) {
    if (!tells_speed(one)) continue;
    if (one.node == node) here.push_back(one.ms);
    if (one.node != node && !without.contains(one.node)) others.push_back(one.ms);
  }
  if (here.empty() || others.empty()) return std::nullopt;
  return median(others) / mean_ms(here);
}

namespace {

// What differs clearly, whoever is sure of it.
std::vector<Finding> differences(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all = compared(before, now);
  const double least = clear_change(all);
  judge_confidence(before, kLeastScatter, all);
  std::erase_if(all, [least](const Finding& one) { return !is_clear(one, least); });
  std::vector<Finding> round_trips = compared_round_trips(before, now);
  judge_confidence(before, kLeastOfRoundTrips, round_trips);
  for (const Finding& one : round_trips) {
    if (is_clear_latency(one)) all.push_back(one);
  }
  judge_beside_others(all, compared(before, now));
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return std::abs(std::log(a.share)) > std::abs(std::log(b.share));
  });
  return all;
}

}  // namespace

std::vector<Finding> diagnose(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all = differences(before, now);
  std::erase_if(all, [](const Finding& one) { return one.confidence < kNamedFrom; });
  return all;
}

std::vector<Finding> not_sure(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all = differences(before, now);
  std::erase_if(all, [](const Finding& one) { return one.confidence >= kNamedFrom; });
  return all;
}

double confidence_of(const std::vector<Finding>& findings) {
  double doubt = 0;
  for (const Finding& one : findings) doubt = std::max(doubt, 1 - one.confidence);
  return 1 - doubt;
}

std::string confidence_text(double confidence) {
  constexpr double kMost = 0.999;
  if (confidence > kMost) return "more than 99.9 %";
  return format_fixed(100 * confidence, 1) + " %";
}

std::vector<Finding> compared_links(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all = compared(before, now);
  const double least = clear_change(all);
  for (Finding& one : all) {
    if (!is_clear(one, least)) one.share = 1;
  }
  for (Finding& one : compared_round_trips(before, now)) {
    if (!is_clear_latency(one)) {
      one.share = 1;
      one.probe.round_trip_ms = one.before_ms;
    }
    all.push_back(std::move(one));
  }
  std::erase_if(all, [](const Finding& one) { return !one.is_link(); });
  return all;
}

bool is_clear_latency(const Finding& finding) {
  constexpr double kLeastMs = 0.5;
  constexpr double kLeastTimes = 2;
  return std::abs(finding.probe.round_trip_ms - finding.before_ms) >= kLeastMs &&
         std::abs(std::log(finding.share)) >= std::log(kLeastTimes);
}

std::vector<Finding> explaining(std::vector<Finding> findings, bool slower) {
  std::erase_if(findings, [slower](const Finding& one) { return (one.share < 1) != slower; });
  return findings;
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), kNamed); ++i) text += (i == 0 ? "" : "; ") + words(findings[i]);
  if (findings.size() > kNamed) text += "; and " + std::to_string(findings.size() - kNamed) + " more";
  return text;
}

std::map<std::int32_t, double> device_shares(const std::vector<Finding>& findings, const ClusterText& of_job) {
  std::map<std::int32_t, double> own;
  std::map<std::int32_t, double> of_cpu;
  const Cluster* const cluster = of_job.said();
  for (const Finding& one : findings) {
    if (one.is_link() || cluster == nullptr || one.probe.device >= cluster->devices()) continue;
    if (!of_cpus(one.probe)) {
      const auto [found, fresh] = own.try_emplace(one.probe.device, one.share);
      // What it computes in training is what matters of it, whatever its clock.
      if (!fresh && in_training(one.probe)) found->second = one.share;
    } else if (one.probe.work == "computation") {
      const std::int32_t node = cluster->node_of(one.probe.device);
      for (std::int32_t device = 0; device < cluster->devices(); ++device) {
        if (cluster->node_of(device) == node) of_cpu[device] = one.share;
      }
    }
  }
  return own.empty() ? of_cpu : own;
}

}  // namespace trimtab::coordinator
