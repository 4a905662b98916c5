// Which few costs of new hardware are measured before near hardware's are believed (tuner/near_costs.hpp).

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "native/costs/near_classes.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMostOfTime = 1.0 / 60;
constexpr std::size_t kLeastSaved = 3;  // measurements for each probe

// One measurement of the benchmark: the keys that it fills.
struct Item {
  NearClass of = NearClass::kComputation;
  bool is_operator = false;
  std::string subject;
  std::string placement;
  std::int32_t tp = 1;
  std::int32_t group_size = 0;
  std::int64_t size = 0;  // samples or bytes
  std::vector<CostKey> keys;
  double ns = 0;  // of one repetition, on the near hardware
};

bool is_operator(CostKind kind) {
  return kind <= CostKind::kOperatorWorkingBytes;
}

auto place_of(const CostKey& key) {
  const int family = is_operator(key.kind)                       ? 0
                     : near_class_of(key) == NearClass::kOverlap ? 1
                                                                 : static_cast<int>(key.kind);
  return std::tuple(family, key.subject, key.tp, key.sharding, key.group_size, key.placement, key.samples, key.bytes);
}

std::vector<Item> items_of(const std::vector<CostKey>& needed, const CostByKey& there) {
  std::map<decltype(place_of(CostKey{})), Item> items;
  for (const CostKey& wanted : needed) {
    const CostKey key = identity(wanted.launched());  // a launch is measured with its pass
    const auto known = there.find(key);
    if (known == there.end()) continue;
    Item& item = items[place_of(key)];
    item.is_operator = is_operator(key.kind);
    item.of = item.is_operator ? NearClass::kComputation : *near_class_of(key);
    item.subject = key.subject;
    item.placement = key.placement;
    item.tp = key.tp;
    item.group_size = key.group_size;
    item.size = std::max<std::int64_t>(key.samples, key.bytes);
    item.keys.push_back(wanted);
    if (unit_of(key.kind) == "ns" && !wanted.is_launch()) item.ns += known->second.statistics.mean();
  }
  std::vector<Item> all;
  for (auto& [place, item] : items) all.push_back(std::move(item));
  return all;
}

using Chosen = std::set<const Item*>;
using Items = std::vector<const Item*>;

// Those of which `holds` says so, the smallest first.
template <typename Holds>
Items those(const std::vector<Item>& all, const Holds& holds) {
  Items found;
  for (const Item& item : all) {
    if (holds(item)) found.push_back(&item);
  }
  std::ranges::stable_sort(found, {}, [](const Item* item) { return item->size; });
  return found;
}

// The largest that takes no more than `most_ns`, else the smallest.
void add_large(const Items& of, double most_ns, Chosen& chosen) {
  if (of.empty()) return;
  const Item* largest = of.front();
  for (const Item* item : of) {
    if (item->ns <= most_ns) largest = item;
  }
  chosen.insert(largest);
}

void add_small(const Items& of, Chosen& chosen) {
  if (!of.empty()) chosen.insert(of.front());
}

class Probes {
 public:
  Probes(const Model& model, const std::vector<Item>& items) : model_(model), items_(items) {
    for (const Item& item : items) most_ns_ += kMostOfTime * item.ns;
  }

  Chosen choose() {
    add_operators();
    add_updates();
    for (const NearClass links : {NearClass::kIntraNode, NearClass::kInterNode}) add_links(links);
    add_overlap();
    add_host();
    return std::move(chosen_);
  }

 private:
  [[nodiscard]] Items operators(const std::string& subject, std::int32_t tp) const {
    return those(items_,
                 [&](const Item& item) { return item.is_operator && item.subject == subject && item.tp == tp; });
  }

  // By what all operators of a key take at their smallest size together, the most first.
  [[nodiscard]] std::vector<std::string> by_weight(std::int32_t tp) const {
    std::map<std::string, double> weights;
    for (const Operator& op : model_.operators) {
      const Items of = operators(op.cost_key, tp);
      if (!of.empty())
        weights[op.cost_key] += of.front()->ns / static_cast<double>(std::max<std::int64_t>(1, of.front()->size));
    }
    std::vector<std::string> subjects;
    for (const auto& [subject, weight] : weights) subjects.push_back(subject);
    std::ranges::stable_sort(subjects, std::greater<>(), [&](const std::string& one) { return weights[one]; });
    return subjects;
  }

  // The heaviest large and small, the next large, the lightest small; the heaviest small of the most ranks.
  void add_operators() {
    std::set<std::int32_t> degrees;
    for (const Item& item : items_) {
      if (item.is_operator) degrees.insert(item.tp);
    }
    if (degrees.empty()) return;
    const std::vector<std::string> subjects = by_weight(*degrees.begin());
    for (std::size_t i = 0; i < std::min<std::size_t>(2, subjects.size()); ++i) {
      add_large(operators(subjects[i], *degrees.begin()), most_ns_, chosen_);
    }
    if (subjects.empty()) return;
    add_small(operators(subjects.front(), *degrees.begin()), chosen_);
    add_small(operators(subjects.back(), *degrees.begin()), chosen_);
    if (degrees.size() > 1) add_small(operators(subjects.front(), *degrees.rbegin()), chosen_);
  }

  void add_updates() {
    const Items updates =
        those(items_, [](const Item& item) { return !item.is_operator && item.of == NearClass::kComputation; });
    const auto longest = std::ranges::max_element(updates, {}, [](const Item* item) { return item->ns; });
    if (longest != updates.end()) chosen_.insert(*longest);
  }

  // All-reduces of the largest group, else what there is; and a transfer.
  void add_links(NearClass links) {
    std::int32_t largest = 0;
    for (const Item& item : items_) {
      if (item.of == links && item.subject == "all_reduce") largest = std::max(largest, item.group_size);
    }
    const Items reduces = those(items_, [&](const Item& item) {
      return item.of == links && item.subject == "all_reduce" && item.group_size == largest;
    });
    const Items transfers = those(items_, [&](const Item& item) { return item.of == links && item.group_size == 0; });
    add_small(reduces, chosen_);
    add_large(reduces, most_ns_, chosen_);
    add_large(transfers, most_ns_, chosen_);
    if (reduces.empty()) add_small(transfers, chosen_);
  }

  void add_overlap() {
    const Items overlaps = those(items_, [](const Item& item) { return item.of == NearClass::kOverlap; });
    const auto widest = std::ranges::max_element(overlaps, {}, [](const Item* item) { return item->group_size; });
    if (widest != overlaps.end()) chosen_.insert(*widest);
  }

  void add_host() {
    for (const std::string_view direction : {"host_to_device", "device_to_host"}) {
      const Items copies = those(items_, [&](const Item& item) { return item.subject == direction; });
      add_small(copies, chosen_);
      add_large(copies, most_ns_, chosen_);
    }
    add_large(those(items_, [](const Item& item) { return item.placement == "host"; }), most_ns_, chosen_);
  }

  const Model& model_;
  const std::vector<Item>& items_;
  double most_ns_ = 0;
  Chosen chosen_;
};

}  // namespace

std::vector<CostKey> near_probes(const Model& model, const std::vector<CostKey>& needed, const NearHardware& near) {
  const std::vector<Item> items = items_of(needed, benchmarked(near.costs));
  const Chosen chosen = Probes(model, items).choose();
  if (chosen.empty() || items.size() < kLeastSaved * chosen.size()) return {};
  std::set<CostKey> keys;
  for (const Item* item : chosen) keys.insert(item->keys.begin(), item->keys.end());
  for (const CostKey& key : needed) {
    if (key.kind == CostKind::kProcessBytes) keys.insert(key);
  }
  return {keys.begin(), keys.end()};
}

}  // namespace trimtab::tuner
