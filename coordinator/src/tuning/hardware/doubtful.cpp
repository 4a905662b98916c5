#include "tuning/hardware/doubtful.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "schema/model.hpp"
#include "tuner/cost_choice.hpp"
#include "tuner/needed_costs.hpp"
#include "tuning/hardware/changed_hardware.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kMostItems = 32;
constexpr double kShareOfPause = 0.8;  // the rest is for what takes longer than expected
constexpr double kOfIncumbent = 4;     // what a group that the incumbent has weighs more
constexpr double kShortestNs = 2e6;    // ranks repeat what is shorter (client/python/trimtab/measuring_again.py)
constexpr double kValues = 3;          // … and measure so many values after a first call
constexpr double kGroupNs = 20e6;      // that a group of its own takes to be made
constexpr double kLeastChange = 0.02;  // of a cost: less is no doubt

using Known = std::map<CostKey, double>;  // ns, by canonical key

struct Weighed {
  DoubtfulItem item;
  double weight = 0;
  double pause_ns = 0;
};

// What ranks take for one call, whatever its costs count of it: a transfer goes there and back.
double call_ns(const DoubtfulItem& item) {
  double ns = 0;
  for (const DoubtfulCost& one : item.costs) {
    ns += one.expected_ns * (one.key.kind == CostKind::kPointToPoint ? 2 : 1);
  }
  return ns;
}

double pause_ns(const DoubtfulItem& item) {
  const double once = call_ns(item);
  return once + kValues * std::max(once, kShortestNs) + (item.ranks.empty() ? 0 : kGroupNs);
}

double changed_by(const DoubtfulItem& item) {
  double ns = 0;
  for (const DoubtfulCost& one : item.costs) ns += std::abs(one.expected_ns - one.before_ns);
  return ns;
}

bool is_message(const CostKey& key) {
  return key.kind == CostKind::kCollective || (key.kind == CostKind::kPointToPoint && key.subject == "send_recv");
}

bool is_pass(const CostKey& key) {
  return key.kind == CostKind::kOperatorForward || key.kind == CostKind::kOperatorBackward;
}

std::string level_of(const CostKey& key) {
  return key.placement.empty() ? "intra_node" : key.placement;
}

std::int32_t ranks_of(const CostKey& key) {
  return key.kind == CostKind::kPointToPoint ? 2 : key.group_size;
}

class Doubts {
 public:
  Doubts(const SearchTask& task, const Model& model, const Cluster& cluster)
      : task_(task), model_(model), cluster_(cluster), incumbent_(task.incumbent.said()) {
    for (const tuner::ChosenCost& one : tuner::choose_costs(task.costs)) {
      if (!one.statistics.empty()) known_[canonical(one.key)] = one.statistics.mean() * one.factor;
    }
    for (const CostKey& key : tuner::needed_costs(model, cluster, task.knobs, {})) needed_.push_back(canonical(key));
    std::erase_if(needed_, [this](const CostKey& key) { return !known_.contains(key); });
    if (incumbent_ != nullptr) learn_groups();
  }

  Doubtful all(Nanoseconds pause) {
    for (const auto& [level, change] : task_.link_changes.levels) add_level(level, change);
    for (const auto& [pair, change] : task_.link_changes.pairs) add_pair(pair, change);
    for (const auto& [device, share] : task_.slow_devices) add_device(device, share);
    return chosen(pause);
  }

 private:
  void learn_groups() {
    for (const Stage& stage : incumbent_->stages) {
      for (const Segment& segment : stage.segments) groups_.insert({segment.dp, segment.tp});
    }
  }

  [[nodiscard]] bool is_of_incumbent(const CostKey& key) const {
    if (incumbent_ == nullptr) return false;
    return key.kind == CostKind::kPointToPoint ? incumbent_->stages.size() > 1 : groups_.contains(key.group_size);
  }

  [[nodiscard]] DoubtfulCost changed(const CostKey& key, const LinkChange& change) const {
    const double ns = known_.at(key);
    return {key, ns, changed_ns(key, ns, change)};
  }

  void add(DoubtfulItem item, double weight) {
    for (const DoubtfulCost& one : item.costs) doubtful_.insert(one.key);
    const double takes = pause_ns(item);
    found_.push_back({std::move(item), weight, takes});
  }

  void add_message(const CostKey& key, const LinkChange& change, const NodePair& pair,
                   std::vector<std::int32_t> ranks) {
    DoubtfulItem item{{changed(key, change)}, std::move(ranks), pair, -1};
    const double before = item.costs.front().before_ns;
    const double changed = task_.doubted.contains(pair) ? std::max(changed_by(item), before) : changed_by(item);
    if (changed < kLeastChange * before) return;
    add(std::move(item), changed * (is_of_incumbent(key) ? kOfIncumbent : 1));
  }

  void add_level(const std::string& level, const LinkChange& change) {
    for (const CostKey& key : needed_) {
      if (is_message(key) && level_of(key) == level) add_message(key, change, {}, {});
    }
  }

  // Two ranks measure a link of two nodes. What goes over it among others is doubtful, and follows from that.
  void add_pair(const NodePair& pair, const LinkChange& change) {
    const auto ranks = ranks_at(pair);
    for (const CostKey& key : needed_) {
      if (!is_message(key) || level_of(key) != coordinator::level_of(pair)) continue;
      doubtful_.insert(key);
      if (ranks && ranks_of(key) == 2) add_message(key, change, pair, *ranks);
    }
  }

  [[nodiscard]] std::optional<std::vector<std::int32_t>> ranks_at(const NodePair& pair) const {
    std::map<std::string, std::vector<std::int32_t>> ranks;
    std::int32_t next = 0;
    for (const Node& node : cluster_.nodes) {
      for (std::int32_t i = 0; i < node.devices; ++i) ranks[node.name].push_back(next++);
    }
    std::vector<std::int32_t>& first = ranks[pair.first];
    std::vector<std::int32_t>& second = ranks[pair.second];
    const std::size_t place = pair.first == pair.second ? 1 : 0;
    if (first.empty() || second.size() <= place) return std::nullopt;
    if (const auto doubted = task_.doubted.find(pair); doubted != task_.doubted.end()) {
      begin_with(doubted->second, first);
      if (place == 0) begin_with(doubted->second, second);
    }
    return std::vector<std::int32_t>{std::min(first[0], second[place]), std::max(first[0], second[place])};
  }

  // The one whose link it is, where that is known.
  static void begin_with(std::int32_t device, std::vector<std::int32_t>& ranks) {
    const auto found = std::ranges::find(ranks, device);
    if (found != ranks.end()) std::rotate(ranks.begin(), found, found + 1);
  }

  // All ranks measure the operators of a slow device, so that it is seen beside the others, too.
  void add_device(std::int32_t device, double share) {
    for (const CostKey& key : needed_) {
      if (is_pass(key) || key.kind == CostKind::kOptimizerStep) doubtful_.insert(key);
    }
    for (const auto& [cost_key, count] : operators_on(device)) {
      DoubtfulItem item{{}, {}, {}, device};
      const auto forward = nearest(CostKind::kOperatorForward, cost_key, samples_on(device));
      if (!forward) continue;
      CostKey backward = *forward;
      backward.kind = CostKind::kOperatorBackward;
      for (const CostKey& key : {*forward, backward}) {
        if (known_.contains(key)) item.costs.push_back({key, known_.at(key), known_.at(key) / share});
      }
      const double changed = changed_by(item);
      if (item.costs.size() == 2) add(std::move(item), changed * count);
    }
  }

  [[nodiscard]] const Stage* stage_of(std::int32_t device) const {
    if (incumbent_ == nullptr) return nullptr;
    const auto has = [device](const Stage& one) { return std::ranges::find(one.devices, device) != one.devices.end(); };
    const auto found = std::ranges::find_if(incumbent_->stages, has);
    return found == incumbent_->stages.end() ? nullptr : &*found;
  }

  // By cost key, how often a step of the incumbent runs it there; once each where it runs nothing there.
  [[nodiscard]] std::map<std::string, double> operators_on(std::int32_t device) const {
    std::map<std::string, double> counts;
    const Stage* const stage = stage_of(device);
    const Range range =
        stage == nullptr ? Range{0, static_cast<std::int32_t>(model_.operators.size())} : stage->operators();
    const double times = stage == nullptr ? 1 : incumbent_->microbatches();
    for (std::int32_t i = range.begin; i < range.end; ++i) counts[model_.operators[i].cost_key] += times;
    return counts;
  }

  [[nodiscard]] std::int32_t samples_on(std::int32_t device) const {
    const Stage* const stage = stage_of(device);
    return stage == nullptr ? 1 : std::max(incumbent_->microbatch / stage->segments.front().dp, 1);
  }

  [[nodiscard]] std::optional<CostKey> nearest(CostKind kind, const std::string& cost_key, std::int32_t samples) const {
    std::optional<CostKey> best;
    const auto off = [samples](const CostKey& key) { return std::abs(std::log(double(key.samples) / samples)); };
    for (const CostKey& key : needed_) {
      if (key.kind != kind || key.subject != cost_key || key.tp != 1) continue;
      if (!best || off(key) < off(*best)) best = key;
    }
    return best;
  }

  Doubtful chosen(Nanoseconds pause) {
    Doubtful doubtful;
    doubtful.costs = static_cast<std::int32_t>(doubtful_.size());
    std::ranges::stable_sort(found_, [](const Weighed& a, const Weighed& b) {
      return std::pair(-a.weight, a.pause_ns) < std::pair(-b.weight, b.pause_ns);
    });
    double left = kShareOfPause * static_cast<double>(pause.count());
    for (Weighed& one : found_) {
      if (one.pause_ns > left || doubtful.items.size() == kMostItems) continue;
      left -= one.pause_ns;
      doubtful.items.push_back(std::move(one.item));
    }
    if (!doubtful.items.empty()) doubtful.request_json = request(doubtful.items, pause);
    return doubtful;
  }

  // As the benchmark command is asked for them, with what the ranks of a running job need to know besides.
  [[nodiscard]] std::string request(const std::vector<DoubtfulItem>& items, Nanoseconds pause) const {
    nlohmann::json asked = nlohmann::json::array();
    for (const DoubtfulItem& one : items) {
      std::vector<CostKey> keys;
      for (const DoubtfulCost& cost : one.costs) keys.push_back(cost.key);
      nlohmann::json item = nlohmann::json::parse(tuner::benchmark_requests_json(keys, model_)).at("items").at(0);
      item["expected_ns"] = std::llround(call_ns(one));
      if (!one.ranks.empty()) item["ranks"] = one.ranks;
      asked.push_back(std::move(item));
    }
    return nlohmann::json{{"bound_ms", std::chrono::duration<double, std::milli>(pause).count()}, {"items", asked}}
        .dump();
  }

  const SearchTask& task_;
  const Model& model_;
  const Cluster& cluster_;
  const Plan* const incumbent_;
  Known known_;
  std::vector<CostKey> needed_;  // of those that are known
  std::set<std::int32_t> groups_;
  std::set<CostKey> doubtful_;
  std::vector<Weighed> found_;
};

}  // namespace

Result<Doubtful> doubtful_costs(const SearchTask& task, Nanoseconds pause) {
  if (task.link_changes.empty() && task.slow_devices.empty()) return Doubtful{};
  TRIMTAB_TRY(const Model model, parse_model(task.model_json, "the job's model"));
  TRIMTAB_TRY(const Cluster cluster, task.cluster.needed("the job's cluster"));
  return Doubts(task, model, cluster).all(pause);
}

}  // namespace trimtab::coordinator
