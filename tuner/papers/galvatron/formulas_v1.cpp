// The first published version: one node of 8 devices or two of 8, each with formulas of its own.

#include <algorithm>
#include <cmath>

#include "papers/galvatron/formulas.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kScale = 1.1;        // of every time
constexpr double kLayers = 24;        // that an overhead is stated for, on one node
constexpr double kContextMib = 1024;  // of a process
constexpr std::int32_t kOneNode = 8;

double reduction_mib(const LayerType& type, const LayerStrategy& strategy, double samples) {
  const double passes = type.decoder ? 6 : 4;
  const double mib = samples * type.sequence_hidden * 4 / kMiB;
  return 2.0 * (strategy.tp() - 1) / strategy.tp() * mib * passes;
}

// The part of the backward pass that synchronization runs beside.
double hiding_share(const LayerType& type, const LayerStrategy& strategy, std::int32_t stages, bool one_node) {
  const bool narrow = strategy.tp() < strategy.tp() * strategy.replicas() / 2;
  const bool own_rule = one_node ? stages == 1 : stages != 4;
  if (type.decoder && own_rule) return 2.0 / 3;
  return narrow ? 1 : 0.5;
}

}  // namespace

std::optional<double> Formulas::own_microbatches(const LayerStrategy& strategy, std::int32_t batch,
                                                 std::int32_t stages) const {
  if (variant_ != Variant::kV1) return std::nullopt;
  const double samples = static_cast<double>(batch) / strategy.replicas();
  const GalvatronFamily family = profile_->facts.family;
  const bool text =
      family == GalvatronFamily::kBert || family == GalvatronFamily::kT5 || family == GalvatronFamily::kGpt;
  if (profile_->devices != kOneNode) {
    const double narrow = text ? 4 : stages <= 8 ? 16 : 32;
    return std::max(1.0, std::ceil(std::floor(samples / strategy.tp()) / narrow));
  }
  if (stages == 1) return 1;
  switch (family) {
    case GalvatronFamily::kVit:
      return samples == 8 ? 1 : 2;
    case GalvatronFamily::kSwin:
      return samples <= 8 ? 1 : samples < 32 ? 2 : samples <= 96 ? 3 : 4;
    case GalvatronFamily::kT5:
      return samples == 2 ? 1 : stages == 8 ? 3 : 2;
    case GalvatronFamily::kBert:
    case GalvatronFamily::kGpt:
      break;
  }
  if (strategy.replicas() == 1 && strategy.tp() > 1) return samples / 4;
  return samples < 6 ? samples / 2 : samples / 8 + 2;
}

LayerCost Formulas::layer_v1(const LayerType& type, const LayerStrategy& strategy, const Situation& at) const {
  const bool one_node = profile_->devices == kOneNode;
  const Links link = links(strategy, at.stages);
  const double replicas = strategy.replicas();
  const double samples = at.batch / replicas;
  // With layers of several types the second script leaves their number at its default.
  const bool stated = one_node || profile_->types.size() > 1;
  const double layers = stated ? kLayers : static_cast<double>(profile_->type_of.size());
  const double slowdown = profile_->slowdown;
  const bool sharded = strategy.sharded() > 1;
  const double forward = type.forward_ms * samples / strategy.tp();
  const double backward = 2 * forward;
  const double parameters = type.parameter_mib / strategy.tp();
  const double whole_gradients = 2 * (replicas - 1) / replicas * parameters * link.replicas;
  const double gradients = sharded && !one_node ? whole_gradients / 2 : whole_gradients;
  const double reductions = reduction_mib(type, strategy, samples) * link.tensor;
  const double computing = forward + backward + reductions;
  double whole = computing;
  if (strategy.replicas() > 1) {
    const double hidden = strategy.tp() == 1 ? backward : backward * hiding_share(type, strategy, at.stages, one_node);
    double overlapped = beside(hidden, gradients, slowdown);
    // On one node, synchronization that is longer than all backward passes is counted for one stage alone.
    if (one_node && strategy.tp() == 1 && at.stages > 1 && gradients > hidden && !sharded) {
      overlapped = hidden * slowdown + (gradients - hidden) / at.stages;
    }
    whole += overlapped - hidden + profile_->facts.overhead_ms / layers;
  }
  const double count = *own_microbatches(strategy, at.batch, at.stages);
  const double filling = (at.stages + count - 1) / (at.stages * count);
  double step = at.stages == 1 ? whole : computing * filling + whole - computing;
  if (sharded) step += one_node ? gradients / 2 : 2 * gradients;
  const auto transfer = profile_->transfer.find(at.stages);
  if (!one_node && at.stages > 1 && transfer != profile_->transfer.end()) {
    step += 2 * samples * type.sequence_hidden * 4 / kMiB * transfer->second / layers;
  }
  LayerCost cost;
  const double share = at.stages == 1 ? 1 : filling;
  cost.forward_ms = kScale * forward * share;
  cost.backward_ms = kScale * backward * share;
  cost.exposed_ms = kScale * step - cost.forward_ms - cost.backward_ms;
  cost.plain_ms = cost.sync_ms = kScale * step;
  double states = 4 * parameters;
  if (sharded) states *= 1 / replicas + (one_node ? 0.025 : 0.003);
  const double total = states + type.kept_mib.at(strategy.tp()) * samples;
  cost.kept_mib = std::ceil(total - 1e-6) - states;
  cost.states_mib = states;
  return cost;
}

// Charged to every stage, or to the first alone where a model has layers of several types on one node.
double Formulas::reserved_v1(const Situation& at) const {
  const GalvatronFacts& facts = profile_->facts;
  const std::int32_t devices = profile_->devices / at.stages;
  const double samples = static_cast<double>(at.batch) / devices;
  if (profile_->devices == kOneNode) {
    if (profile_->types.size() > 1 && at.stage > 0) return 0;
    return facts.node.states_mib + facts.node.activation_mib * samples + kContextMib;
  }
  if (at.stages == 1) return facts.whole.states_mib + facts.whole.activation_mib * samples + kContextMib;
  // The rule's microbatches, at most one a sample.
  const double most = std::floor(static_cast<double>(at.batch) / devices);
  const double count =
      std::min(*own_microbatches(layer_strategy(devices, 1, false, true, false), at.batch, at.stages), most);
  const bool text = facts.family == GalvatronFamily::kBert || facts.family == GalvatronFamily::kT5 ||
                    facts.family == GalvatronFamily::kGpt;
  const double relief = facts.microbatch_relief_mib * samples * (count > 0 ? 1 - 1 / count : 0);
  double first = facts.first.states_mib + facts.first.activation_mib * (text ? samples / at.stages : samples);
  if (!text) first -= relief;
  double last = facts.last.states_mib;
  last += facts.family == GalvatronFamily::kSwin ? facts.last.activation_mib * samples / at.stages
                                                 : facts.last.activation_mib * samples - relief;
  if (profile_->types.size() == 1) return std::max(first, last) + kContextMib;
  return (at.stage == 0 ? first : at.stage == at.stages - 1 ? last : 0) + kContextMib;
}

}  // namespace trimtab::tuner::galvatron
