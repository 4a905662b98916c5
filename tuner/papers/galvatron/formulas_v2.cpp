// The second published version, as it searches by default: sharded optimizer and gradients among replicas, 1F1B.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "papers/galvatron/formulas.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kContextMib = 1024;
constexpr double kBias = 0.003;  // of a share of states: buckets that do not divide evenly

// Of the model states that a replica keeps: gradients of several microbatches are summed before they are sharded.
double kept_states(bool parameters, double replicas, bool half_precision, bool several) {
  const double share = 1 / replicas + kBias;
  const double whole = half_precision ? 1.0 / 8 : 1.0 / 4;
  if (parameters) return several ? (1 - whole) * share + whole : share;
  const double more = several ? 2 * whole : whole;
  return (1 - more) * share + more;
}

std::int32_t real_microbatches(std::int32_t batch, std::int32_t devices, std::int32_t microbatches) {
  const std::int32_t most = std::max(1, batch / devices);
  return std::min(microbatches, most);
}

}  // namespace

double Formulas::in_flight_share(const LayerStrategy& strategy, const Situation& situation) const {
  if (situation.stages == 1) return 1;
  const std::int32_t devices = strategy.replicas() * strategy.tp();
  const std::vector<std::int32_t> sizes =
      chunk_sizes(situation.batch / devices, real_microbatches(situation.batch, devices, situation.microbatches));
  const auto held = std::min<std::size_t>(static_cast<std::size_t>(situation.stages - situation.stage), sizes.size());
  const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  return all > 0 ? std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(held), 0.0) / all : 1;
}

LayerCost Formulas::layer_v2(const LayerType& type, const LayerStrategy& strategy, const Situation& at,
                             bool plain_replicas) const {
  const Links link = links(strategy, at.stages);
  const double replicas = strategy.replicas();
  const double samples = static_cast<double>(at.batch) / at.microbatches / replicas;
  const double width = profile_->half_precision ? 0.5 : 1;  // of what float32 would send
  const double layers = static_cast<double>(profile_->type_of.size());
  LayerCost cost;
  cost.forward_ms = type.forward_ms * samples / strategy.tp();
  cost.backward_ms = 2 * cost.forward_ms;
  if (strategy.recompute) cost.recompute_ms = cost.forward_ms / 2;
  const double parameters = type.parameter_mib / strategy.tp();
  const double gradients = 2 * (replicas - 1) / replicas * parameters * width * link.replicas;
  const double passes = (type.decoder ? 6 : 4) * (strategy.recompute ? 1.5 : 1);
  const double reductions = 2.0 * (strategy.tp() - 1) / strategy.tp() * samples * type.sequence_hidden * 4 / kMiB *
                            width * passes * link.tensor;
  cost.exposed_ms = reductions;
  if (strategy.sharded() > 1) cost.exposed_ms += gradients / 2;
  const auto transfer = profile_->transfer.find(at.stages);
  if (at.stages > 1 && transfer != profile_->transfer.end()) {
    const double both = 2 * samples * type.sequence_hidden * 4 / kMiB * width * transfer->second;
    cost.exposed_ms += at.stages * both / layers;
  }
  cost.plain_ms = cost.forward_ms + cost.backward_ms + cost.recompute_ms + cost.exposed_ms;
  cost.sync_ms = cost.plain_ms;
  if (strategy.replicas() > 1) {
    const double backward = cost.backward_ms + cost.recompute_ms;
    const bool narrow = strategy.tp() == 1 || strategy.tp() < strategy.tp() * strategy.replicas() / 2;
    const double share = narrow ? 1 : 0.5;
    const double hiding = type.decoder && strategy.tp() > 1 ? backward * 2 / 3 : backward * share;
    cost.sync_ms += beside(hiding, gradients, profile_->slowdown) - hiding;
  }
  const bool several = real_microbatches(at.batch, strategy.replicas() * strategy.tp(), at.microbatches) > 1;
  double states = 4 * parameters;
  if (strategy.sharded() > 1) {
    states *= kept_states(true, replicas, profile_->half_precision, several);
  } else if (strategy.dp() > 1 && !plain_replicas) {
    states *= kept_states(false, replicas, profile_->half_precision, several);
  }
  const double kept = strategy.recompute ? type.recomputed_mib : type.kept_mib.at(strategy.tp());
  const double total = states + kept * in_flight_share(strategy, at) * at.batch / replicas;
  cost.states_mib = states;
  cost.kept_mib = std::ceil(total - 1e-6) - states;
  return cost;
}

// As of a layer with replicas alone, whatever the plan's layers do.
double Formulas::reserved_v2(const Situation& at, bool plain_replicas) const {
  const GalvatronFacts& facts = profile_->facts;
  const std::int32_t devices = profile_->devices / at.stages;
  const LayerStrategy replicas = layer_strategy(devices, 1, false, true, false);
  const double samples = static_cast<double>(at.batch) / devices;
  const bool several = real_microbatches(at.batch, devices, at.microbatches) > 1;
  const double share =
      plain_replicas || devices == 1 ? 1 : kept_states(false, devices, profile_->half_precision, several);
  if (at.stages == 1) return facts.whole.states_mib * share + facts.whole.activation_mib * samples + kContextMib;
  Situation first = at;
  first.stage = 0;
  Situation last = at;
  last.stage = at.stages - 1;
  if (at.stage == 0) {
    return facts.first.states_mib * share + facts.first.activation_mib * samples * in_flight_share(replicas, first) +
           kContextMib;
  }
  if (at.stage < at.stages - 1) return kContextMib;
  return facts.last.states_mib * share + facts.last.activation_mib * samples * in_flight_share(replicas, last) +
         kContextMib;
}

double Formulas::recompute_reserve_mib(const Situation& at) const {
  if (variant_ != Variant::kV2) return 0;
  const std::int32_t devices = profile_->devices / at.stages;
  Situation last = at;
  last.stage = at.stages - 1;
  const double share = in_flight_share(layer_strategy(devices, 1, false, true, false), last);
  // The last kind of layer's, as the published loop leaves it.
  return std::floor(profile_->types.back().kept_mib.at(1) * share * at.batch / devices + 1e-9);
}

}  // namespace trimtab::tuner::galvatron
