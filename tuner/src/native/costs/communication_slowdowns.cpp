#include "native/costs/communication_slowdowns.hpp"

namespace trimtab::tuner {
namespace {

CommunicationSlowdowns look_up(const OverlapCosts& costs, Primitive primitive, std::int64_t bytes,
                               std::int32_t group_size, Placement placement) {
  const OverlapSubject of{to_string(primitive), bytes, group_size, placement};
  CommunicationSlowdowns slowdowns;
  for (std::size_t kind = 0; kind < kComputationKinds; ++kind) {
    slowdowns.computation[kind] = costs.beside(of, static_cast<ComputationKind>(kind)).plain();
  }
  slowdowns.alike = std::ranges::all_of(slowdowns.computation,
                                        [&](const OverlapSlowdown& one) { return one == slowdowns.computation[0]; });
  for (std::size_t other = 0; other < kPrimitives; ++other) {
    const Slowdown slowed = costs.beside_communication(of, to_string(static_cast<Primitive>(other)));
    if (!slowed.measured()) continue;
    slowdowns.communication[other] = {slowed.factor, slowed.error};
    slowdowns.primitive = primitive;
  }
  if (primitive != Primitive::kReduceScatter) return slowdowns;
  const Primitive gather = Primitive::kAllGather;
  if (!slowdowns.beside(gather).measured()) return slowdowns;
  for (std::size_t kind = 0; kind < kComputationKinds; ++kind) {
    const Slowdown beside =
        costs.beside_both(of, to_string(gather), bytes / std::max(1, group_size), static_cast<ComputationKind>(kind));
    slowdowns.both[kind] = {beside.factor, 1, beside.measured(), beside.error, 0};
  }
  return slowdowns;
}

}  // namespace

OverlapSlowdown beside_each_other(const CommunicationSlowdowns& one, const CommunicationSlowdowns& other) {
  const CommunicationSlowdowns::Beside& first = one.beside(other.primitive);
  const CommunicationSlowdowns::Beside& second = other.beside(one.primitive);
  if (!first.measured() || !second.measured()) return kCommunicationWaits;
  return {first.factor, second.factor, true, first.error, second.error};
}

const CommunicationSlowdowns* SlowdownCatalog::of(Primitive primitive, std::int64_t bytes, std::int32_t group_size,
                                                  Placement placement) {
  if (costs_->empty() || group_size < 2 || bytes <= 0) return &kNoSlowdowns;
  const auto [place, fresh] = found_.try_emplace(Key{primitive, bytes, group_size, placement}, nullptr);
  if (!fresh) return place->second;
  const CommunicationSlowdowns slowdowns = look_up(*costs_, primitive, bytes, group_size, placement);
  const auto alike = std::ranges::find(known_, slowdowns);
  place->second = slowdowns == kNoSlowdowns ? &kNoSlowdowns
                  : alike != known_.end()   ? &*alike
                                            : &known_.emplace_back(slowdowns);
  return place->second;
}

}  // namespace trimtab::tuner
