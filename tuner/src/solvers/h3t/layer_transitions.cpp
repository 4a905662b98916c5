#include "solvers/h3t/layer_transitions.hpp"

#include <initializer_list>

namespace trimtab::tuner::h3t {
namespace {

struct SegmentPrice {
  Ticks ticks = 0;
  Bytes peak = 0;   // above the level in front of the forward segment; of a backward segment, above the level behind it
  Bytes delta = 0;  // of the level: a forward segment's and what the next one releases of this layer at once
};

// A layer between its neighbours, null outside of the model.
struct Neighbourhood {
  const LayerProfile* before = nullptr;
  const LayerProfile* layer = nullptr;
  const LayerProfile* after = nullptr;
};

unsigned bits(std::initializer_list<bool> values) {
  unsigned number = 0;
  for (const bool value : values) number = number << 1U | (value ? 1U : 0U);
  return number;
}

// What the next forward segment releases before anything else.
Bytes released_bytes(const LayerProfile& layer, const LayerSwitches& own) {
  if (!own.partition_parameters) return 0;
  return (own.rematerialize ? layer.gathered_parameters : 0) + (own.lazy_prefetch ? layer.partitioned_parameters : 0);
}

// What one layer's forward and backward segment cost where segments are synchronized, each from a simulation of the
// segment alone: 12 forward and 64 backward ones of a layer between two others, computed when first asked for.
class SegmentPrices {
 public:
  // The layers must outlive this.
  SegmentPrices(const Neighbourhood& at, Fabric fabric) : at_(at), fabric_(fabric) {}

  // The last layer's segment includes the release of its own parameters.
  [[nodiscard]] SegmentPrice forward(const LayerSwitches& own, bool lazy_after) {
    // A layer that is not the last releases its parameters in the next segment: they are no part of its own.
    const bool last = at_.after == nullptr;
    LayerSwitches read = own;
    if (!last) read.partition_parameters = read.lazy_prefetch = false;
    const unsigned slot = bits({read.partition_parameters, read.lazy_prefetch, own.rematerialize, own.offload_hidden,
                                own.economical_forward, lazy_after});
    if (!forward_[slot]) forward_[slot] = simulate_forward(read, lazy_after);
    SegmentPrice price = *forward_[slot];
    if (!last) price.delta -= released_bytes(*at_.layer, own);
    return price;
  }

  // The first layer's includes its gradients' way to the host, the last layer's what is brought before it.
  // In front of a backward segment the device holds, beyond the level behind the forward segment, what was brought back
  // for it and the gradients that the layer after has just computed.
  [[nodiscard]] SegmentPrice backward(const LayerSwitches& before, const LayerSwitches& own, bool lazy_after) {
    const bool last = at_.after == nullptr;
    const bool first = at_.before == nullptr;
    LayerSwitches read = own;
    if (!last && !first) read.partition_parameters = read.lazy_prefetch = read.offload_hidden = false;
    const unsigned slot = bits({before.partition_parameters, before.lazy_prefetch, before.rematerialize,
                                before.offload_hidden, read.partition_parameters, read.lazy_prefetch, own.rematerialize,
                                read.offload_hidden, own.economical_backward, lazy_after});
    if (!backward_[slot]) backward_[slot] = simulate_backward(before, read, lazy_after);
    SegmentPrice price = *backward_[slot];
    if (last) return price;
    price.peak +=
        released_bytes(*at_.layer, own) + (own.offload_hidden ? at_.layer->input : 0) + at_.after->gathered_gradients;
    return price;
  }

 private:
  struct Layers {
    std::vector<LayerProfile> profiles;
    Switching switches;
    void add(const LayerProfile& profile, const LayerSwitches& own) {
      profiles.push_back(profile);
      switches.push_back(own);
    }
  };

  void add_own(const LayerSwitches& own, bool lazy_after, Layers& layers) const {
    layers.add(*at_.layer, own);
    LayerSwitches after;
    after.lazy_prefetch = lazy_after;
    if (at_.after != nullptr) layers.add(*at_.after, after);
  }

  static SegmentPrice price_of(SegmentSimulator& simulator) {
    simulator.synchronize();
    return {simulator.runtime(), simulator.peak(), simulator.delta()};
  }

  [[nodiscard]] SegmentPrice simulate_forward(const LayerSwitches& own, bool lazy_after) const {
    Layers layers;
    add_own(own, lazy_after, layers);
    SegmentSimulator simulator(layers.profiles, fabric_);
    simulator.begin(layers.switches, 0);
    simulator.forward(0);
    if (at_.after == nullptr) simulator.forward_tail(0);
    return price_of(simulator);
  }

  [[nodiscard]] SegmentPrice simulate_backward(const LayerSwitches& before, const LayerSwitches& own,
                                               bool lazy_after) const {
    Layers layers;
    if (at_.before != nullptr) layers.add(*at_.before, before);
    const auto middle = static_cast<std::int32_t>(layers.profiles.size());
    add_own(own, lazy_after, layers);
    SegmentSimulator simulator(layers.profiles, fabric_);
    simulator.begin(layers.switches, 0);
    if (at_.after == nullptr) {
      simulator.backward_head(middle);
      simulator.synchronize();
    }
    simulator.backward(middle);
    if (at_.before == nullptr) simulator.backward_tail(middle);
    return price_of(simulator);
  }

  Neighbourhood at_;
  Fabric fabric_;
  std::array<std::optional<SegmentPrice>, 64> forward_;
  std::array<std::optional<SegmentPrice>, 1024> backward_;
};

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
  if (std::ranges::any_of(front, dominated)) return;
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
