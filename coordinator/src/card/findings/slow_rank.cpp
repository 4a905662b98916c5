// A rank whose own work takes longer than that of the others in the same step, so that they wait for it.

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"
#include "card/findings/slow_device.hpp"

namespace trimtab::coordinator {

namespace {

// How much longer, at least: as the middle of all steps says, surely, and where each rank is at its fastest. What
// disturbs a rank for a while (caches, a hyper-thread's other half) is not in its fastest steps, and what is slow about
// it is.
struct Limits {
  double middle;
  double surely;
  double fastest;
};
constexpr Limits kDevice = {0.05, 0.03, 0.03};
constexpr Limits kHost = {0.08, 0.0, 0.08};
constexpr Limits kDisturbed = {0.13, 0.07, 0.08};  // other processes' load is still in the ranks' times
constexpr double kFast = 0.1;                      // of a rank's steps
constexpr double kLeastGain = 0.01;

class OwnWork {
 public:
  explicit OwnWork(const Rows& rows) : rows_(rows) {}

  [[nodiscard]] double of(std::size_t row, std::size_t place) const { return rows_.at(row, place).own; }

  // By rank, the logarithm of what its work takes of what the middle one of the others takes: the middle over steps.
  [[nodiscard]] std::vector<double> beside_others() const {
    std::vector<double> middle;
    for (std::size_t row = 0; row < rows_.count(); ++row) {
      std::vector<double> all;
      for (std::size_t place = 0; place < ranks(); ++place) all.push_back(of(row, place));
      middle.push_back(std::log(median_of(std::move(all))));
    }
    std::vector<double> ratios;
    for (std::size_t place = 0; place < ranks(); ++place) {
      ratios.push_back(
          median_of(rows_.series([&](std::size_t row) { return std::log(of(row, place)) - middle[row]; })));
    }
    return ratios;
  }

  // The same of one rank, step by step, and exactly: without itself in the middle.
  [[nodiscard]] std::vector<double> beside_others(std::size_t place) const {
    return rows_.series([&](std::size_t row) {
      std::vector<double> others;
      for (std::size_t i = 0; i < ranks(); ++i) {
        if (i != place) others.push_back(of(row, i));
      }
      return std::log(of(row, place) / median_of(std::move(others)));
    });
  }

  // The same of its fastest steps beside the others' fastest ones.
  [[nodiscard]] double fastest_beside_others(std::size_t place) const {
    std::vector<double> others;
    for (std::size_t i = 0; i < ranks(); ++i) {
      if (i != place) others.push_back(fast(i));
    }
    return std::log(fast(place) / median_of(std::move(others)));
  }

  // The share of a step that goes where these ranks take less by these logarithms. The step is the one that other
  // processes leave alone.
  [[nodiscard]] std::vector<double> gain(const std::map<std::size_t, double>& faster) const {
    return rows_.series([&](std::size_t row) {
      double longest = 0;
      double then = 0;
      for (std::size_t i = 0; i < ranks(); ++i) {
        const auto found = faster.find(i);
        longest = std::max(longest, of(row, i));
        then = std::max(then, found == faster.end() ? of(row, i) : of(row, i) * std::exp(-found->second));
      }
      return (longest - then) / (longest + rows_.least(row, &Cell::communication) + rows_.mean(row, &Cell::data));
    });
  }

  [[nodiscard]] std::size_t ranks() const { return rows_.ranks().size(); }

 private:
  [[nodiscard]] double fast(std::size_t place) const {
    return quantile_of(rows_.series([&](std::size_t row) { return of(row, place); }), kFast);
  }

  const Rows& rows_;
};

// Those as slow as `slowest`, or nearly: a node's ranks are slow together. Never half of them.
std::map<std::size_t, double> slow_ones(const OwnWork& work, const std::vector<double>& ratios, std::size_t slowest,
                                        double slowest_ratio) {
  std::map<std::size_t, double> slow;
  for (std::size_t place = 0; place < ratios.size(); ++place) {
    if (place == slowest || (ratios.size() > 3 && ratios[place] > 0.6 * ratios[slowest])) {
      slow[place] = place == slowest ? slowest_ratio : ratios[place];
    }
  }
  if (slow.size() * 2 < work.ranks() || slow.size() == 1) return slow;
  return {{slowest, slowest_ratio}};
}

struct SlowRanks {
  std::size_t slowest = 0;
  Estimate longer;                     // of that one
  std::map<std::size_t, double> slow;  // with those that are as slow
};

std::optional<SlowRanks> slow_by_steps(const JobLook& job, const Rows& rows) {
  if (rows.ranks().size() < 2) return std::nullopt;
  const OwnWork work(rows);
  const std::vector<double> ratios = work.beside_others();
  const auto slowest = static_cast<std::size_t>(std::ranges::max_element(ratios) - ratios.begin());
  const Estimate longer = estimate_of(work.beside_others(slowest));
  const Limits& limits = job.on_device ? kDevice : rows.undisturbed() ? kHost : kDisturbed;
  if (longer.value < std::log1p(limits.middle) || longer.low < std::log1p(limits.surely)) return std::nullopt;
  if (work.fastest_beside_others(slowest) < std::log1p(limits.fastest)) return std::nullopt;
  return SlowRanks{slowest, longer, slow_ones(work, ratios, slowest, longer.value)};
}

// "kernels take 8.1 % (7.6 % to 8.6 %) longer than the same ones of the others, 99.9 % sure: its device is slow".
std::string kernels_text(const SlowDevice& device, const JobLook& job) {
  constexpr double kMost = 0.999;
  const std::string beside = device.by_past ? "than they did at first, beside what the others' have changed by"
                                            : std::string("than the same ones of the others") +
                                                  (job.facts.stages > 1 ? " of its pipeline stage" : "");
  return "kernels take " + format_percent(std::expm1(device.longer.value)) + " (" +
         format_percent(std::expm1(device.longer.low)) + " to " + format_percent(std::expm1(device.longer.high)) +
         ") longer " + beside + ", " + format_percent(std::min(device.confidence, kMost)) +
         " sure: its device is slow, whatever it has to do";
}

// Among ranks that do the same work: `rows` are theirs, at `places` of the job's rows.
Found find_among(const JobLook& job, const Rows& rows, const std::vector<std::size_t>& places) {
  if (!rows.are_enough()) return {};
  const std::optional<SlowRanks> by_steps = slow_by_steps(job, rows);
  const auto device = job.on_device ? slow_device(job.evidence, rows.ranks()) : std::nullopt;
  if (!by_steps && !device) return {};
  const std::size_t slowest = by_steps ? by_steps->slowest : device->place;
  const Estimate longer = by_steps ? by_steps->longer : device->longer;
  const auto slow = by_steps ? by_steps->slow : std::map<std::size_t, double>{{slowest, longer.value}};
  std::map<std::size_t, double> faster;
  for (const auto& [place, ratio] : slow) faster[places.at(place)] = ratio;
  // Of some steps together: what scatters from step to step is no rank's own.
  const Rows merged = job.work().merged();
  const Estimate gain = estimate_of(OwnWork(merged).gain(faster));
  if (gain.value < kLeastGain && !device) return {};
  const std::int32_t rank = rows.ranks()[slowest];
  const std::string name = "rank " + std::to_string(rank);
  std::string also;
  for (const auto& [place, ratio] : slow) {
    if (place != slowest && slow.size() <= 9) also += " " + std::to_string(rows.ranks()[place]);
  }
  api::CardFinding finding = new_finding(api::FindingName::kSlowRank, gain, rank);
  finding.advice = "look at what " + name + " has that others have not" +
                   (job.on_device ? ": its GPU's clock and temperature (nvidia-smi -q -d PERFORMANCE), other processes"
                                    " there, more or longer samples"
                                  : ": other processes on its cores, fewer cores (taskset -p, OMP_NUM_THREADS), more or"
                                    " longer samples, work that it does alone");
  if (!by_steps) {
    finding.why = "of " + name + job.node_words(rank) + " " + kernels_text(*device, job);
    return finding;
  }
  finding.why = name + job.node_words(rank) + " takes " + format_percent(std::expm1(longer.value)) + " (" +
                format_percent(std::expm1(longer.low)) + " to " + format_percent(std::expm1(longer.high)) +
                ") longer for its own work than the others" + (job.facts.stages > 1 ? " of its pipeline stage" : "") +
                " in the same step, and they wait for it" +
                (slow.size() > 1 ? ". As slow: " + std::to_string(slow.size() - 1) + " more" +
                                       (also.empty() ? "" : " (ranks" + also + ")")
                                 : "");
  if (device && device->place == slowest) finding.why += "; " + kernels_text(*device, job);
  return finding;
}

// By pipeline stage, as ranks tell theirs: stages differ in their work.
std::map<std::int64_t, std::vector<std::size_t>> places_by_stage(const JobLook& job) {
  std::map<std::int64_t, std::vector<std::size_t>> places;
  const std::vector<std::int32_t>& ranks = job.work().ranks();
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    places[job.evidence.ranks.at(ranks[place]).facts.stage].push_back(place);
  }
  return places;
}

}  // namespace

Found find_slow_rank(const JobLook& job) {
  if (job.has_untold_stages()) return {};
  if (job.facts.stages < 2) {
    std::vector<std::size_t> places(job.work().ranks().size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    return find_among(job, job.work(), places);
  }
  Found slowest;
  for (const auto& [stage, places] : places_by_stage(job)) {
    const Found found = find_among(job, job.work().of_places(places), places);
    if (found && (!slowest || found->gain > slowest->gain)) slowest = found;
  }
  return slowest;
}

}  // namespace trimtab::coordinator
