#include "solvers/h3t/layer_transitions.hpp"

#include <algorithm>

#include "solvers/h3t/segment_prices.hpp"

namespace trimtab::tuner::h3t {
namespace {

constexpr std::size_t kRemembered = 4096;  // some 50 MB

// Of the layer before: 0 and 1, not partitioned, by offload_hidden; then partitioned, by lazy_prefetch and by what
// becomes of its activations.
std::int32_t kind_of(const LayerSwitches& switches) {
  if (!switches.partition_parameters) return switches.offload_hidden ? 1 : 0;
  const std::int32_t activations = switches.offload_hidden ? 2 : switches.rematerialize ? 1 : 0;
  return 2 + (switches.lazy_prefetch ? 3 : 0) + activations;
}

LayerSwitches example_of(std::int32_t kind) {
  LayerSwitches switches;
  const std::int32_t activations = kind < 2 ? (kind == 1 ? 2 : 0) : (kind - 2) % 3;
  switches.partition_parameters = kind >= 2;
  switches.lazy_prefetch = kind >= 5;
  switches.rematerialize = activations > 0;
  switches.offload_hidden = activations == 2;
  return switches;
}

std::int32_t state_of(std::int32_t kind, bool lazy) {
  return kind * 2 + (lazy ? 1 : 0);
}

// The kind that comes next says what is offloaded.
bool worse_or_equal(const Transition& a, const Transition& b) {
  return a.next == b.next && a.ticks >= b.ticks && a.peak >= b.peak && a.kept >= b.kept && a.resident >= b.resident &&
         a.retained >= b.retained;
}

void add(const Transition& transition, std::vector<Transition>& front) {
  const auto dominated = [&](const Transition& other) { return worse_or_equal(transition, other); };
  if (std::any_of(front.begin(), front.end(), dominated)) return;
  std::erase_if(front, [&](const Transition& other) { return worse_or_equal(other, transition); });
  front.push_back(transition);
}

class LayerProgram {
 public:
  LayerProgram(const Neighbourhood& at, const Problem& problem)
      : at_(at), allowed_(problem.allowed), prices_(at, problem.fabric) {}

  [[nodiscard]] Transitions build() {
    Transitions transitions;
    const std::int32_t kinds = at_.before == nullptr ? 1 : 8;
    for (std::int32_t kind = 0; kind < kinds; ++kind) {
      for (const LayerSwitches& own : synchronized_combinations()) {
        if (!is_within(own, allowed_)) continue;
        std::vector<Transition>& front = transitions[state_of(kind, own.lazy_prefetch)];
        for (const bool lazy_after : {false, true}) {
          if (at_.after == nullptr && lazy_after) continue;
          add(transition(kind, own, lazy_after), front);
        }
      }
    }
    return transitions;
  }

 private:
  [[nodiscard]] Transition transition(std::int32_t kind, const LayerSwitches& own, bool lazy_after) {
    const SegmentPrice forward = prices_.forward(own, lazy_after);
    const SegmentPrice backward = prices_.backward(example_of(kind), own, lazy_after);
    const LayerProfile& layer = *at_.layer;
    Transition of;
    of.ticks = forward.ticks + backward.ticks;
    of.write_back = own.lazy_prefetch ? 0 : layer.prefetch_parameters;
    of.kept = forward.delta;
    of.peak = std::max(forward.peak, of.kept + backward.peak);
    of.resident = own.lazy_prefetch ? 0 : layer.partitioned_parameters;
    of.retained = retained_bytes(layer, own);
    of.host = offloaded_bytes(layer, own);
    of.next = static_cast<std::uint8_t>(state_of(kind_of(own), lazy_after));
    of.code = code_of(own);
    return of;
  }

  Neighbourhood at_;
  AllowedSwitches allowed_;
  SegmentPrices prices_;
};

}  // namespace

std::uint8_t code_of(const LayerSwitches& switches) {
  unsigned code = 0;
  for (const bool one :
       {switches.partition_parameters, switches.lazy_prefetch, switches.rematerialize, switches.offload_hidden,
        switches.economical_forward, switches.economical_backward, switches.segment_sync}) {
    code = code << 1U | (one ? 1U : 0U);
  }
  return static_cast<std::uint8_t>(code);
}

std::uint8_t code_of(const AllowedSwitches& allowed) {
  const auto on = static_cast<const LayerSwitches&>(allowed);
  return static_cast<std::uint8_t>(code_of(on) | (allowed.lazy_needs_partition ? 0x80U : 0U));
}

LayerSwitches switches_of(std::uint8_t code) {
  const auto bit = [code](unsigned position) { return (code >> position & 1U) != 0; };
  return {bit(6), bit(5), bit(4), bit(3), bit(2), bit(1), bit(0)};
}

std::int32_t state_between(const LayerSwitches& before, const LayerSwitches& after) {
  return state_of(kind_of(before), after.lazy_prefetch);
}

std::size_t TransitionTable::Hash::operator()(const LayerProfile& layer) const {
  std::size_t hash = 0;
  for (const std::int64_t value :
       {layer.forward_with_grad, layer.backward, layer.gather_parameters, layer.prefetch_hidden, layer.input,
        layer.with_grad.delta, layer.no_grad.peak, layer.gathered_parameters, layer.partitioned_parameters}) {
    hash = (hash ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15U;
  }
  return hash ^ hash >> 32U;
}

std::int32_t TransitionTable::number_of(const LayerProfile& layer) {
  const auto [at, is_new] = numbers_.try_emplace(layer, static_cast<std::int32_t>(layers_.size()));
  if (is_new) layers_.push_back(&at->first);
  return at->second;
}

TransitionTable::Shared TransitionTable::between(std::int32_t before, std::int32_t own, std::int32_t after,
                                                 const Problem& problem) {
  if (known_.size() >= kRemembered) known_.clear();
  Shared& known = known_[{before, own, after, problem.fabric, code_of(problem.allowed)}];
  if (known == nullptr) {
    const Neighbourhood at{layer(before), layer(own), layer(after)};
    ++simulated_;
    known = std::make_shared<const Transitions>(LayerProgram(at, problem).build());
  }
  return known;
}

}  // namespace trimtab::tuner::h3t
