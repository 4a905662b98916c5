#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "base/numbers.hpp"
#include "native/costs/training_correction.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab::tuner {
namespace {

using Kind = CostSource::Kind;

constexpr double kMillion = 1e6;

// Where nobody says what was computed beside it, the transfer is taken to be its own.
bool is_transfer_alone(const CostSource& source) {
  const bool slowed = source.beside == CostSource::Beside::kComputation;
  return source.clock == CostSource::Clock::kRanks && !source.waiting && !slowed;
}

bool is_alone(const CostSource& source) {
  return source.beside == CostSource::Beside::kNothing || is_transfer_alone(source);
}

// First to last.
enum class Order : std::uint8_t {
  kBenchmark,
  kDisturbedBenchmark,
  kTraining,
  kDisturbedTraining,
  kImported,
  kTakenOver,
  kBeside,
  kUnclear,
  kContributed,
  kContributedBeside,
  kContributedUnclear,
  kEstimated,
};

// Behind all that the cluster has measured.
Order order_of_contributed(const CostSource& source) {
  if (source.waiting) return Order::kContributedUnclear;
  return seen_in_training(source) && !is_alone(source) ? Order::kContributedBeside : Order::kContributed;
}

Order order_of(const CostSource& source) {
  if (source.kind == Kind::kBenchmark) return source.disturbed ? Order::kDisturbedBenchmark : Order::kBenchmark;
  if (source.kind == Kind::kEstimated) return Order::kEstimated;
  if (source.kind == Kind::kTakenOver) return Order::kTakenOver;
  if (contributor_of(source)) return order_of_contributed(source);
  if (condition_unknown(source) || source.waiting) return Order::kUnclear;
  const bool beside_others = seen_in_training(source) && !is_alone(source);
  if (source.kind == Kind::kImported) return beside_others ? Order::kBeside : Order::kImported;
  if (!is_alone(source)) return Order::kBeside;
  return source.disturbed ? Order::kDisturbedTraining : Order::kTraining;
}

// Between the first and the third quartile, over the median; 0 of few values.
double spread_of(const Statistics& values) {
  if (values.count() < kEnoughValues || values.median() <= 0) return 0;
  return (values.quantile(0.75) - values.quantile(0.25)) / values.median();
}

// What a time's own values say of how quiet the machine was, beside what is usual of such times here.
class OwnSpread {
 public:
  explicit OwnSpread(const std::vector<Cost>& costs) {
    std::map<Place, std::vector<double>> spreads;
    for (const Cost& cost : costs) {
      const auto place = place_of(cost);
      if (place && !cost.source.disturbed) spreads[*place].push_back(spread_of(cost.statistics));
    }
    for (auto& [place, of] : spreads) {
      const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
      std::ranges::nth_element(of, middle);
      usual_[place] = *middle;
    }
    for (auto& [place, usual] : usual_) {
      const auto training = usual_.find({place.first, true});
      if (training != usual_.end()) usual = std::min(usual, training->second);
    }
  }

  [[nodiscard]] CostSource source_of(const Cost& cost) const {
    CostSource source = cost.source;
    const auto place = place_of(cost);
    const auto usual = place ? usual_.find(*place) : usual_.end();
    if (usual == usual_.end()) return source;
    const double most = std::max(kDisturbedSpread, kBeyondUsual * usual->second);
    source.disturbed = source.disturbed || spread_of(cost.statistics) > most;
    return source;
  }

 private:
  enum class Class : std::uint8_t { kPasses, kUpdates, kLinks };
  using Place = std::pair<Class, bool>;  // whether it was seen in training

  // Nothing of what is no time or is judged by nobody: what waited or ran beside others varies by that.
  static std::optional<Place> place_of(const Cost& cost) {
    const CostSource& source = cost.source;
    const bool training = source.kind == Kind::kTraining;
    const bool ours = training ? is_alone(source) && !source.waiting : source.kind == Kind::kBenchmark;
    if (!ours || cost.statistics.count() < kEnoughValues || cost.key.is_launch()) return std::nullopt;
    if (is_pass(cost.key.kind)) return Place{Class::kPasses, training};
    if (cost.key.kind == CostKind::kOptimizerStep) return Place{Class::kUpdates, training};
    if (cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint) {
      return Place{Class::kLinks, training};
    }
    return std::nullopt;
  }

  std::map<Place, double> usual_;
};

// What crosses links, however it was run: the library's own choices together, as often as it made them. Links carry
// bytes, whatever their type.
CostKey as_chosen_by_library(CostKey key) {
  key = canonical(std::move(key));
  if (key.kind != CostKind::kCollective && key.kind != CostKind::kPointToPoint) return key;
  key.dtype.clear();
  key.algorithm.clear();
  key.protocol.clear();
  key.channels = 0;
  return key;
}

using BySource = std::map<CostSource, Statistics>;
using Sources = std::map<CostKey, BySource>;

Sources by_key(const std::vector<Cost>& costs) {
  Sources sources;
  const OwnSpread spread(costs);
  for (const Cost& cost : costs) {
    if (cost.statistics.empty() || cost.key.kind == CostKind::kKernel) continue;
    CostKey key = as_chosen_by_library(cost.key);
    if (key.particular()) continue;
    sources[std::move(key)][spread.source_of(cost)].merge(cost.statistics);
  }
  return sources;
}

// Of passes in the same place, those behind a cover go before those that contain waiting for their host. Of
// collectives, what is said to have been alone goes before what says nothing.
bool says_alone(const CostSource& source) {
  return source.beside == CostSource::Beside::kNothing;
}

ChosenCost first_of(const CostKey& key, const BySource& sources) {
  const auto place = [](const CostSource& source) {
    return std::tuple(order_of(source), !source.covered, !says_alone(source));
  };
  const auto best =
      std::ranges::min_element(sources, [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  ChosenCost chosen{key, best->second, best->first};
  chosen.factor = best->first.times_ppm / kMillion;
  chosen.log_sigma = best->first.doubt_ppm / kMillion;
  return chosen;
}

bool is_benchmark(const CostSource& source) {
  return source.kind == Kind::kBenchmark || source.kind == Kind::kTakenOver;
}

// Training that may correct, of several the one that is said to have been alone, then the one with most values.
const std::pair<const CostSource, Statistics>* evidence(const BySource& sources) {
  using Seen = std::pair<const CostSource, Statistics>;
  const auto weight = [](const Seen& seen) { return std::pair(says_alone(seen.first), seen.second.count()); };
  const Seen* most = nullptr;
  for (const auto& one : sources) {
    const bool fits = order_of(one.first) == Order::kTraining;
    if (!fits || one.second.count() < kEnoughValues) continue;
    if (most == nullptr || weight(one) > weight(*most)) most = &one;
  }
  return most;
}

bool can_be_corrected(CostKind kind) {
  return is_pass(kind) || kind == CostKind::kCollective || kind == CostKind::kPointToPoint;
}

}  // namespace

std::vector<Cost> told_apart(std::vector<Cost> costs) {
  const OwnSpread spread(costs);
  for (Cost& cost : costs) cost.source = spread.source_of(cost);
  return costs;
}

std::vector<ChosenCost> choose_costs(const std::vector<Cost>& costs) {
  std::map<CostKey, ChosenCost> chosen;
  std::map<CurveKey, Evidence> curves;
  for (const auto& [key, sources] : by_key(costs)) {
    ChosenCost first = first_of(key, sources);
    if (can_be_corrected(key.kind)) {
      Evidence& of = curves[curve_of(key)];
      if (is_benchmark(first.source)) of.benchmark[size_of(key)] = first;
      if (const auto* seen = evidence(sources)) of.training[size_of(key)] = {key, seen->second, seen->first};
    }
    chosen.emplace(key, std::move(first));
  }
  const Corrections corrections = corrected(curves);
  for (const ChosenCost& cost : corrections.costs) chosen.insert_or_assign(cost.key, cost);
  for (const CostKey& key : corrections.left_out) chosen.erase(key);
  std::vector<ChosenCost> result;
  result.reserve(chosen.size());
  for (auto& [key, cost] : chosen) result.push_back(std::move(cost));
  return result;
}

std::vector<Cost> one_cost_each(const std::vector<Cost>& costs) {
  std::vector<Cost> result;
  for (const auto& [key, sources] : by_key(costs)) {
    ChosenCost first = first_of(key, sources);
    result.push_back({std::move(first.key), std::move(first.statistics), std::move(first.source)});
  }
  return result;
}

bool is_known(const ChosenCost& cost) {
  const Order order = order_of(cost.source);
  if (order == Order::kTraining) return cost.statistics.count() >= kEnoughValues;
  return order <= Order::kDisturbedBenchmark || order == Order::kImported || order == Order::kTakenOver ||
         order == Order::kContributed;
}

std::map<std::string, double> training_corrections(const std::vector<ChosenCost>& chosen) {
  std::map<std::string, std::pair<double, int>> sums;
  for (const ChosenCost& cost : chosen) {
    if (!is_pass(cost.key.kind) || cost.source.kind != Kind::kBenchmark) continue;
    auto& [sum, count] = sums[cost.key.subject];
    sum += std::log(cost.factor);
    ++count;
  }
  std::map<std::string, double> factors;
  for (const auto& [subject, sum] : sums) {
    if (sum.first != 0) factors[subject] = std::exp(sum.first / sum.second);
  }
  return factors;
}

std::string describe(const CostSource& source, const Statistics& values) {
  const double spread = values.empty() ? 0 : spread_of(values);
  if (!source.disturbed || spread <= kDisturbedSpread) return describe(source);
  return describe(source) + " (the middle half of its values spans " + format_percent(spread) + ")";
}

std::string rests_on(const ChosenCost& cost) {
  std::string text = describe(cost.source, cost.statistics);
  const double by_training = cost.factor / (cost.source.times_ppm / kMillion);
  if (by_training == 1) return text;
  std::array<char, 64> number{};
  std::snprintf(number.data(), number.size(), "; times %.3f (± %.0f %%) by training", by_training,
                196 * cost.log_sigma);
  text += number.data();
  if (!cost.corrected_by) return text;
  const CostKey& by = *cost.corrected_by;
  if (by.bytes > 0) return text + " at " + std::to_string(by.bytes) + " bytes";
  return text + " at " + std::to_string(by.samples) + " samples, tp " + std::to_string(by.tp);
}

}  // namespace trimtab::tuner
