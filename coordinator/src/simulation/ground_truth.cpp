#include "simulation/ground_truth.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "schema/hash64.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::coordinator {
namespace {

enum class CostClass { kComputation, kCommunication, kOverlap, kMemory, kExact };

CostClass class_of(CostKind kind) {
  switch (kind) {
    case CostKind::kOperatorForward:
    case CostKind::kOperatorBackward:
    case CostKind::kOptimizerStep:
      return CostClass::kComputation;
    case CostKind::kCollective:
    case CostKind::kPointToPoint:
      return CostClass::kCommunication;
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return CostClass::kOverlap;
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
    case CostKind::kOperatorForwardReserveBytes:
    case CostKind::kOperatorBackwardReserveBytes:
      return CostClass::kMemory;
    default:
      return CostClass::kExact;
  }
}

double drawn(double given, double error, Random& random) {
  const double normal = random.normal();  // always drawn, so that a given factor leaves the others as they are
  return given > 0 ? given : std::exp(error * normal);
}

Cost with_mean(const Cost& cost, double mean) {
  Cost result{cost.key, {}};
  result.statistics.add(std::max<std::int64_t>(std::llround(mean), 0));
  return result;
}

constexpr double kPartsPerMillion = 1e6;

// Each subject's own error, drawn when it is first met.
class OperatorErrors {
 public:
  OperatorErrors(double sigma, std::uint64_t seed) : sigma_(sigma), random_(seed) {}
  [[nodiscard]] double factor(const std::string& subject) {
    const auto [found, fresh] = factors_.try_emplace(subject, 1.0);
    if (fresh) found->second = std::exp(sigma_ * random_.normal());
    return found->second;
  }

 private:
  double sigma_;
  Random random_;
  std::map<std::string, double> factors_;
};

// Memory is counted by allocators, not measured with noise: no spread.
Cost wronged(const Cost& cost, const TrueFactors& factors, double spread, OperatorErrors& operators, Random& random) {
  const double own = std::exp(spread * random.normal()) * operators.factor(cost.key.subject);
  const double mean = cost.statistics.mean();
  switch (class_of(cost.key.kind)) {
    case CostClass::kComputation:
      return with_mean(cost, mean * factors.computation * own);
    case CostClass::kCommunication:
      return with_mean(cost, mean * factors.communication * own);
    case CostClass::kOverlap:
      return with_mean(cost, kPartsPerMillion + std::max(0.0, mean - kPartsPerMillion) * factors.overlap);
    case CostClass::kMemory:
      return with_mean(cost, mean * factors.memory);
    case CostClass::kExact:
      return cost;
  }
  return cost;
}

constexpr const char* kSlow = "@slow";

// A standard normal number for a text, the same for a seed whenever it is asked for.
double drawn_for(std::string_view text, std::uint64_t seed) {
  return Random(seed ^ hash64(text)).normal();
}

// How a plan runs the operators of a segment: what the model gets wrong about it holds for all that are run so.
std::string way_of(const Plan& plan, const Segment& segment) {
  std::string text;
  for (const std::int64_t number :
       {static_cast<std::int64_t>(plan.stages.size()), std::int64_t{plan.microbatch}, std::int64_t{segment.dp},
        std::int64_t{segment.tp}, std::int64_t{segment.cp}, static_cast<std::int64_t>(segment.sharded),
        std::int64_t{segment.sharded_degree}, static_cast<std::int64_t>(plan.schedule.kind),
        std::int64_t{plan.schedule.sliced_microbatches}, std::int64_t{plan.schedule.sub_batches}}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

// The mean over operators, each by the way that it is run.
double drawn_for_ways(const Plan& plan, std::uint64_t seed) {
  double sum = 0;
  double operators = 0;
  for (const Stage& stage : plan.stages) {
    for (const Segment& segment : stage.segments) {
      sum += segment.operators.size() * drawn_for(way_of(plan, segment), seed);
      operators += segment.operators.size();
    }
  }
  return operators > 0 ? sum / operators : 0;
}

}  // namespace

const Plan& tuned_plan(const PlanText& plan) {
  TRIMTAB_ASSERT(plan.said() != nullptr, "plans of the tuning machine parse");
  return *plan.said();
}

Result<GroundTruth> GroundTruth::make(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs,
                                      const TruthSettings& settings, std::uint64_t seed) {
  GroundTruth truth;
  truth.model_ = model;
  truth.cluster_ = cluster;
  truth.step_overhead_ms_ = settings.step_overhead_ms;
  truth.way_scatter_ = settings.way;
  truth.plan_scatter_ = settings.plan;
  truth.scatter_seed_ = seed ^ 0x5ca77e4;
  Random random(seed);
  truth.factors_ = {
      drawn(settings.computation, settings.error, random), drawn(settings.communication, settings.error, random),
      drawn(settings.overlap, settings.error, random), drawn(settings.memory, settings.error / 4, random)};
  OperatorErrors operators(settings.operators, seed ^ 0x09e7a);
  for (const Cost& cost : costs) {
    if (cost.statistics.empty()) continue;
    truth.costs_.push_back(wronged(cost, truth.factors_, settings.spread, operators, random));
  }
  for (Link& link : truth.cluster_.links) {
    link.bandwidth_bytes_per_s /= truth.factors_.communication;
    link.latency_us *= truth.factors_.communication;
  }
  TRIMTAB_TRY_STATUS(truth.rebuild());
  return truth;
}

Status GroundTruth::rebuild() {
  Cluster cluster = cluster_;
  current_costs_ = costs_;
  (void)change_links(link_changes_, cluster, current_costs_);
  TRIMTAB_TRY(tuner::CostTable table, tuner::CostTable::build(model_, cluster, current_costs_, {true}));
  current_.emplace(std::move(table));
  slowed_.reset();
  prices_.clear();
  std::map<std::int32_t, double> slow;
  for (std::int32_t device = 0; device < cluster_.devices(); ++device) {
    if (device_share(device) != 1) slow[device] = device_share(device);
  }
  if (slow.empty()) return {};
  slow_devices(slow, cluster);
  TRIMTAB_TRY(tuner::CostTable slowed, tuner::CostTable::build(model_, cluster, current_costs_, {true}));
  slowed_.emplace(std::move(slowed));
  return {};
}

Status GroundTruth::set_link(const std::string& level, const LinkChange& change) {
  const auto of_level = [&](const Link& link) { return link.level == level; };
  const bool known = std::any_of(cluster_.links.begin(), cluster_.links.end(), of_level) ||
                     std::any_of(costs_.begin(), costs_.end(), [&](const Cost& c) { return c.key.placement == level; });
  if (!known) return bad_input("drift of links: the cluster has no level '" + level + "'");
  link_changes_.levels[level] = change;
  std::erase_if(link_changes_.pairs, [&level](const auto& one) { return level_of(one.first) == level; });
  return rebuild();
}

Status GroundTruth::set_link(const NodePair& pair, const LinkChange& change) {
  for (const std::string& name : {pair.first, pair.second}) {
    const auto is_it = [&name](const Node& node) { return node.name == name; };
    if (std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(), is_it)) continue;
    return bad_input("drift of a link: the cluster has no node '" + name + "'");
  }
  link_changes_.pairs[pair] = change;
  return rebuild();
}

Status GroundTruth::set_device(std::int32_t device, double share) {
  if (device < 0 || device >= cluster_.devices()) {
    return bad_input("drift of devices: the cluster has devices 0 to " + std::to_string(cluster_.devices() - 1) +
                     ", not " + std::to_string(device));
  }
  device_share_[subject_of(device)] = share;
  return rebuild();
}

GroundTruth::Device GroundTruth::subject_of(std::int32_t device) const {
  for (const Node& node : cluster_.nodes) {
    if (device < node.devices) return {node.name, device};
    device -= node.devices;
  }
  TRIMTAB_ASSERT(false, "a device of the job's nodes");
  return {};
}

double GroundTruth::device_share(std::int32_t device) const {
  const Device subject = subject_of(device);
  return device_share(subject.first, subject.second);
}

double GroundTruth::device_share(const std::string& node, std::int32_t device_of_node) const {
  const auto found = device_share_.find({node, device_of_node});
  return found == device_share_.end() ? 1 : found->second;
}

void GroundTruth::set_hardware(const std::string& node, std::int32_t devices, double share) {
  for (std::int32_t i = 0; i < devices; ++i) device_share_[{node, i}] = share;
}

Status GroundTruth::set_nodes(const std::vector<Node>& nodes) {
  cluster_.nodes = nodes;
  return rebuild();
}

// A stage is as slow as the slowest of its devices: its operators get costs of their own.
Prediction GroundTruth::throttled(const Plan& plan, const Prediction& healthy) const {
  Model model = model_;
  std::vector<Cost> costs = current_costs_;
  bool slower = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    double share = 1;
    for (const std::int32_t device : plan.stages[s].devices) share = std::min(share, device_share(device));
    if (share >= 1) continue;
    slower = true;
    const Range range = plan.stages[s].operators();
    const std::string suffix = kSlow + std::to_string(s);
    std::map<std::string, bool> keys;
    for (std::int32_t i = range.begin; i < range.end; ++i) {
      keys[model.operators[i].cost_key] = true;
      model.operators[i].cost_key += suffix;
    }
    for (const Cost& cost : current_costs_) {
      if (!keys.contains(cost.key.subject)) continue;
      const bool computes = class_of(cost.key.kind) == CostClass::kComputation;
      Cost slow = computes ? with_mean(cost, cost.statistics.mean() / share) : cost;
      slow.key.subject += suffix;
      costs.push_back(std::move(slow));
    }
  }
  if (!slower) return healthy;
  const auto table = tuner::CostTable::build(model, current_->cluster(), costs, {true});
  TRIMTAB_ASSERT(table.ok(), "a table of the same costs under more names");
  return tuner::NativeCostModel(*table).evaluate(plan);
}

// What no cost explains, whose cost it may be: a plan keeps it whatever becomes of the cluster.
double GroundTruth::scatter_of(const Plan& plan, const std::string& hash) const {
  return std::exp(way_scatter_ * drawn_for_ways(plan, scatter_seed_) + plan_scatter_ * drawn_for(hash, ~scatter_seed_));
}

TruePrice GroundTruth::evaluate(const Plan& plan, const std::string& hash) const {
  const Prediction prediction = current_->evaluate(plan);
  TruePrice price;
  const Prediction now = slowed_ ? throttled(plan, prediction) : prediction;
  price.ms = now.iteration_ms * scatter_of(plan, hash) + step_overhead_ms_;
  price.fits = prediction.feasible;
  price.peak_bytes.assign(static_cast<std::size_t>(cluster_.devices()), 0.0);
  price.pass_ms = price.peak_bytes;
  for (std::size_t s = 0; s < prediction.stages.size(); ++s) {
    const StagePrediction& stage = prediction.stages[s];
    const double passes = plan.microbatches() * (stage.forward_ms + stage.backward_ms + stage.recompute_ms);
    for (const std::int32_t device : plan.stages[s].devices) {
      price.peak_bytes[device] = static_cast<double>(stage.memory_bytes);
      price.pass_ms[device] += passes / device_share(device);
    }
    price.terms.resize(price.pass_ms.size());
    for (const std::int32_t device : plan.stages[s].devices) price.terms[device] = now.stages[s].terms;
    price.state_bytes = std::max(price.state_bytes, static_cast<double>(stage.memory.states));
  }
  // What no cost explains is nobody's.
  for (StepTerms& terms : price.terms) terms.idle_ms = std::max(0.0, terms.idle_ms + price.ms - terms.total_ms());
  return price;
}

const TruePrice& GroundTruth::price(const Plan& plan, const std::string& hash) {
  const auto found = prices_.find(hash);
  return found != prices_.end() ? found->second : prices_.emplace(hash, evaluate(plan, hash)).first->second;
}

}  // namespace trimtab::coordinator
