// Galvatron-BMW as its paper has it (sections III-A and V; equations 2 and 9).

#include <algorithm>

#include "papers/galvatron/formulas.hpp"

namespace trimtab::tuner::galvatron {

LayerCost Formulas::layer_paper(const LayerType& type, const LayerStrategy& strategy, const Situation& at) const {
  const Links link = links(strategy, at.stages);
  const double samples = static_cast<double>(at.batch) / at.microbatches / strategy.replicas();
  const double width = profile_->half_precision ? 0.5 : 1;
  LayerCost cost;
  cost.forward_ms = type.forward_ms * samples / strategy.tp();
  cost.backward_ms = 2 * cost.forward_ms;
  if (strategy.recompute) cost.recompute_ms = cost.forward_ms;
  const double parameters = type.parameter_mib / strategy.tp() * width;
  const auto ring = [](double n) { return (n - 1) / n; };
  // N-way replicas reduce 2(N-1)/N; N-way shards gather twice and scatter once, 3(N-1)/N (takeaway 3).
  const double gather = ring(strategy.sharded()) * parameters * link.replicas;
  const double reduce = 2 * ring(strategy.dp()) * parameters * link.replicas + gather;
  const double passes = type.decoder ? 3 : 2;  // in a forward pass, a backward pass and a recomputation
  const double reductions = 2 * ring(strategy.tp()) * samples * type.boundary_mib * passes * link.tensor;
  const double backward = cost.backward_ms + cost.recompute_ms;
  const double backward_reductions = reductions * (strategy.recompute ? 2 : 1);
  // The forward pass waits for all of its communication; a backward pass runs beside gathers and gradients.
  cost.exposed_ms = gather + reductions + backward_reductions + beside(backward, gather, profile_->slowdown) - backward;
  cost.plain_ms = cost.forward_ms + backward + cost.exposed_ms;
  cost.sync_ms = cost.plain_ms + beside(backward, gather + reduce, profile_->slowdown) -
                 beside(backward, gather, profile_->slowdown);
  const double in_flight = std::min(at.microbatches, at.stages - at.stage) * samples;
  const double all = type.kept_mib.at(strategy.tp());
  const double boundary =
      type.recomputed_mib > 0 ? std::min(type.recomputed_mib, all) : std::min(type.boundary_mib, all);
  cost.kept_mib = (strategy.recompute ? boundary : all) * in_flight;
  cost.peak_mib = strategy.recompute ? (all - boundary) * samples : 0;
  cost.states_mib = 4 * type.parameter_mib / strategy.tp() / strategy.sharded();
  return cost;
}

// A layer's output goes to the ranks that lack it, and its gradient back.
double Formulas::layout_change_ms(std::int32_t type, const LayerStrategy& from, const LayerStrategy& to,
                                  const Situation& at) const {
  const std::int32_t devices = profile_->devices / at.stages;
  if (variant_ == Variant::kV2 || devices == 1) return 0;
  if (variant_ == Variant::kPaper) {
    const double share = lacking_share(from, to, devices) + lacking_share(to, from, devices);
    if (share <= 0) return 0;
    const double mib = profile_->types[static_cast<std::size_t>(type)].boundary_mib * at.batch / at.microbatches;
    return share * mib * std::max(0.0, profile_->reduce_ms_per_mib(at.stages, devices, true));
  }
  // v1: 2 MiB a sample, where ranks or their places change; and a tenth of a millisecond that sorts equal costs.
  constexpr double kMibOfSample = 2;
  constexpr double kSorting = 0.1;
  const bool same_degrees = from.tp() == to.tp() && from.replicas() == to.replicas();
  if (same_degrees && from.tp_consecutive() == to.tp_consecutive() && from.sharded() > 1 && to.sharded() == 1) {
    return kSorting;
  }
  const auto mixed = [](const LayerStrategy& one) { return one.tp() > 1 && one.replicas() > 1; };
  const bool turned = mixed(from) && mixed(to) && from.tp_consecutive() != to.tp_consecutive();
  const bool any = profile_->devices != 8 && profile_->types.size() == 1;
  const bool narrower = any ? to.tp() < from.tp() : devices == 8 && from.tp() == 4 && to.tp() == 2;
  const bool moves = to.tp() > from.tp() || (turned && (from.tp() == to.tp() || narrower));
  if (!moves) return 0;
  const double mib = kMibOfSample * at.batch / to.replicas() * (to.tp() - 1) / to.tp();
  return mib * profile_->reduce_ms_per_mib(at.stages, to.tp(), to.tp_consecutive());
}

// Embedding and head as a stage of replicas keeps them; the paper knows no constant of a process.
double Formulas::reserved_paper(const Situation& at) const {
  const GalvatronFacts& facts = profile_->facts;
  const double samples = static_cast<double>(at.batch) / at.microbatches / (profile_->devices / at.stages);
  const auto of = [&](const GalvatronEnds& ends) {
    return ends.states_mib + ends.activation_mib * samples * std::min(at.microbatches, at.stages - at.stage);
  };
  if (at.stages == 1) return of(facts.whole);
  if (at.stage == 0) return of(facts.first);
  return at.stage == at.stages - 1 ? of(facts.last) : 0;
}

}  // namespace trimtab::tuner::galvatron
