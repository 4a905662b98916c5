#include "tuning/hardware/measured_again.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/trial/blocks.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kNamed = 3;        // of costs, or of reasons, in a text
constexpr double kLeastSpeed = 0.001;    // that a cluster document can say
constexpr double kClearlySlower = 1.3;   // than most ranks
constexpr std::size_t kMostValues = 64;  // of a cost that are kept, of all ranks

std::string ms_text(double ns) {
  return format_ms(ns * 1e-6);
}

const RankMeasured::Item* find(const RankMeasured& rank, std::size_t item) {
  const auto found = std::ranges::find_if(rank.items, [item](const RankMeasured::Item& one) {
    return std::cmp_equal(one.item, item) && one.error.empty();
  });
  return found == rank.items.end() ? nullptr : &*found;
}

void add_values(const RankMeasured& rank, std::size_t item, std::size_t cost, std::vector<std::int64_t>& values) {
  const RankMeasured::Item* const told = find(rank, item);
  if (told == nullptr || cost >= told->costs.size()) return;
  std::ranges::copy_if(told->costs[cost], std::back_inserter(values), [](std::int64_t value) { return value > 0; });
}

// Of many ranks' some that are spread over them.
std::vector<std::int64_t> thinned(std::vector<std::int64_t> values) {
  if (values.size() <= kMostValues) return values;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < kMostValues; ++i) kept.push_back(values[i * values.size() / kMostValues]);
  return kept;
}

double middle(const std::vector<std::int64_t>& values) {
  return values.empty() ? 0 : median(std::vector<double>(values.begin(), values.end()));
}

// All ranks' values, or, where the slowest one's group is clearly slower than most, its own: a step waits for it.
std::vector<std::int64_t> that_count(const std::vector<std::vector<std::int64_t>>& of_ranks) {
  if (of_ranks.empty()) return {};
  std::vector<double> middles;
  for (const auto& values : of_ranks) middles.push_back(middle(values));
  const auto slowest = std::ranges::max_element(middles);
  if (*slowest > kClearlySlower * median(middles)) return of_ranks[static_cast<std::size_t>(slowest - middles.begin())];
  std::vector<std::int64_t> all;
  for (const auto& values : of_ranks) all.insert(all.end(), values.begin(), values.end());
  return all;
}

MeasuredCost measured_cost(const DoubtfulItem& item, std::size_t place, std::size_t cost,
                           const std::map<std::int32_t, RankMeasured>& ranks,
                           const std::map<std::int32_t, double>& slow_devices) {
  const DoubtfulCost& of = item.costs[cost];
  std::vector<std::vector<std::int64_t>> asked;
  std::vector<std::int64_t> others;
  for (const auto& [rank, told] : ranks) {
    std::vector<std::int64_t> values;
    add_values(told, place, cost, values);
    if (values.empty()) continue;
    if (item.device < 0 || rank == item.device) {
      asked.push_back(std::move(values));
    } else if (!slow_devices.contains(rank)) {
      others.insert(others.end(), values.begin(), values.end());
    }
  }
  return {of.key, item.pair, item.device, of.before_ns, of.expected_ns, thinned(that_count(asked)), middle(others)};
}

// What the ranks say of items that they have not measured; each once, and the first few.
std::string reasons(const std::map<std::int32_t, RankMeasured>& ranks) {
  std::set<std::string> all;
  for (const auto& [rank, told] : ranks) {
    for (const RankMeasured::Item& one : told.items) {
      if (!one.error.empty() && all.size() < kNamed) all.insert(one.error);
    }
  }
  return joined(all, "; ");
}

bool is_of(const MeasuredCost& one, const NodePair& pair, const std::string& level) {
  const std::string of = one.key.placement.empty() ? "intra_node" : one.key.placement;
  return one.device < 0 && one.pair == pair && of == level;
}

// now = before / share + messages * message_ms, weighed by 1 / now². With one size alone the messages stay as probed.
LinkChange fitted(const std::vector<const MeasuredCost*>& costs, LinkChange change) {
  double bb = 0, bm = 0, mm = 0, b = 0, m = 0;
  for (const MeasuredCost* const one : costs) {
    const double now = one->now_ns();
    const double before = one->before_ns / now;
    const double messages = messages_of(one->key) * 1e6 / now;
    bb += before * before, bm += before * messages, mm += messages * messages, b += before, m += messages;
  }
  const double determinant = bb * mm - bm * bm;
  const bool two = determinant > 1e-6 * bb * mm;
  const double message_ms = two ? (m * bb - b * bm) / determinant : change.message_ms;
  const double inverse = (b - message_ms * bm) / bb;
  if (inverse <= 0) return {1 / std::max(b / bb, kLeastSpeed), 0};
  return {std::max(1 / inverse, kLeastSpeed), message_ms};
}

LinkChange fitted(const std::vector<MeasuredCost>& again, const NodePair& pair, const std::string& level,
                  const LinkChange& change) {
  std::vector<const MeasuredCost*> costs;
  for (const MeasuredCost& one : again) {
    if (is_of(one, pair, level)) costs.push_back(&one);
  }
  return costs.empty() ? change : fitted(costs, change);
}

}  // namespace

double MeasuredCost::now_ns() const {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

Remeasured measured_by(const Doubtful& doubtful, const std::map<std::int32_t, RankMeasured>& ranks,
                       const std::map<std::int32_t, double>& slow_devices) {
  Remeasured again;
  again.doubtful = doubtful.costs;
  for (const auto& [rank, told] : ranks) {
    again.step = std::max(again.step, told.step);
    again.took_ms = std::max(again.took_ms, std::chrono::duration<double, std::milli>(told.took).count());
  }
  for (std::size_t place = 0; place < doubtful.items.size(); ++place) {
    for (std::size_t cost = 0; cost < doubtful.items[place].costs.size(); ++cost) {
      MeasuredCost one = measured_cost(doubtful.items[place], place, cost, ranks, slow_devices);
      if (!one.values.empty()) again.costs.push_back(std::move(one));
    }
  }
  again.left = reasons(ranks);
  if (again.left.empty() && std::cmp_less(again.costs.size(), again.doubtful)) {
    again.left = "the others follow from these, or do not fit into the pause";
  }
  return again;
}

std::string describe(const MeasuredCost& one) {
  std::string text = trimtab::describe(one.key);
  if (!one.pair.first.empty()) text += " between " + one.pair.first + " and " + one.pair.second;
  if (one.device >= 0) text += " on device " + std::to_string(one.device);
  text += " " + ms_text(one.now_ns()) + " (" + ms_text(one.expected_ns) + " expected, " + ms_text(one.before_ns) +
          " before";
  if (one.others_ns > 0) text += ", " + ms_text(one.others_ns) + " on the others";
  return text + ")";
}

std::string describe(const Remeasured& again) {
  std::string text = std::to_string(again.costs.size()) + " of " + std::to_string(again.doubtful) +
                     " doubtful costs were measured again before step " + std::to_string(again.step) + ", in " +
                     format_ms(again.took_ms);
  for (std::size_t i = 0; i < std::min(again.costs.size(), kNamed); ++i) {
    text += (i == 0 ? ": " : ", ") + describe(again.costs[i]);
  }
  if (again.costs.size() > kNamed) text += ", and " + std::to_string(again.costs.size() - kNamed) + " more";
  return text + (again.left.empty() ? "" : "; " + again.left);
}

void supersede(const std::vector<MeasuredCost>& again, std::vector<Cost>& costs) {
  for (const MeasuredCost& one : again) {
    if (one.device >= 0 || !one.pair.first.empty()) continue;
    std::erase_if(costs, [&one](const Cost& known) {
      CostKey key = canonical(known.key);
      key.algorithm.clear(), key.protocol.clear(), key.channels = 0;
      return key == canonical(one.key);
    });
    Cost cost{one.key, {}, {}};
    for (const std::int64_t value : one.values) cost.statistics.add(value);
    costs.push_back(std::move(cost));
  }
}

LinkChanges as_measured(LinkChanges changes, const std::vector<MeasuredCost>& again) {
  for (auto& [level, change] : changes.levels) change = fitted(again, {}, level, change);
  for (auto& [pair, change] : changes.pairs) change = fitted(again, pair, level_of(pair), change);
  return changes;
}

std::map<std::int32_t, double> as_measured(std::map<std::int32_t, double> slow_devices,
                                           const std::vector<MeasuredCost>& again) {
  for (auto& [device, share] : slow_devices) {
    std::vector<double> speeds;
    for (const MeasuredCost& one : again) {
      if (one.device == device) speeds.push_back(one.before_ns / one.now_ns());
    }
    if (!speeds.empty()) share = std::clamp(median(speeds), kLeastSpeed, 1.0);
  }
  return slow_devices;
}

}  // namespace trimtab::coordinator
