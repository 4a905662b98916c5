#include "step_program.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "segment_prices.hpp"

namespace trimtab::tuner::h3t {
namespace {

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

bool worse_or_equal(const Transition& a, const Transition& b) {
  return a.next == b.next && a.ticks >= b.ticks && a.peak >= b.peak && a.kept >= b.kept && a.host >= b.host;
}

void add(const Transition& transition, std::vector<Transition>& front) {
  const auto dominated = [&](const Transition& other) { return worse_or_equal(transition, other); };
  if (std::any_of(front.begin(), front.end(), dominated)) return;
  std::erase_if(front, [&](const Transition& other) { return worse_or_equal(other, transition); });
  front.push_back(transition);
}

class LayerProgram {
 public:
  LayerProgram(const Neighbourhood& at, Fabric fabric) : at_(at), prices_(at, fabric) {}

  [[nodiscard]] Transitions build() {
    Transitions transitions;
    const std::int32_t kinds = at_.before == nullptr ? 1 : 8;
    for (std::int32_t kind = 0; kind < kinds; ++kind) {
      for (const LayerSwitches& own : synchronized_combinations()) {
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
    of.host = own.offload_hidden ? layer.input : 0;
    of.next = static_cast<std::uint8_t>(state_of(kind_of(own), lazy_after));
    of.code = code_of(own);
    return of;
  }

  Neighbourhood at_;
  SegmentPrices prices_;
};

std::vector<std::int32_t> numbers_of_equals(std::span<const LayerProfile> layers) {
  std::vector<std::int32_t> numbers;
  std::vector<std::int32_t> firsts;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto same =
        std::find_if(firsts.begin(), firsts.end(), [&](std::int32_t f) { return layers[f] == layers[i]; });
    numbers.push_back(static_cast<std::int32_t>(same - firsts.begin()));
    if (same == firsts.end()) firsts.push_back(static_cast<std::int32_t>(i));
  }
  return numbers;
}

Start start_of(const Problem& problem, bool lazy) {
  SegmentSimulator simulator(problem.layers.first(1), problem.fabric);
  LayerSwitches switches;
  switches.lazy_prefetch = lazy;
  simulator.begin({&switches, 1}, 0);
  simulator.forward_head(0);
  simulator.synchronize();
  return {simulator.runtime(), simulator.delta()};
}

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

LayerSwitches switches_of(std::uint8_t code) {
  const auto bit = [code](unsigned position) { return (code >> position & 1U) != 0; };
  return {bit(6), bit(5), bit(4), bit(3), bit(2), bit(1), bit(0)};
}

StepProgram::StepProgram(const Problem& problem) : device_limit_(problem.device_limit) {
  const std::int32_t count = problem.count();
  const std::vector<std::int32_t> numbers = numbers_of_equals(problem.layers);
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::shared_ptr<const Transitions>> known;
  Bytes fixed_host = 0;
  Bytes all_hidden = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const LayerProfile& layer = problem.layers[i];
    const Neighbourhood at{i > 0 ? &problem.layers[i - 1] : nullptr, &layer,
                           i + 1 < count ? &problem.layers[i + 1] : nullptr};
    auto& shared = known[{i > 0 ? numbers[i - 1] : -1, numbers[i], i + 1 < count ? numbers[i + 1] : -1}];
    if (!shared) shared = std::make_shared<const Transitions>(LayerProgram(at, problem.fabric).build());
    of_layer_.push_back(shared);
    optimizer_.push_back(layer.optimizer_step);
    optimizer_sum_ += layer.optimizer_step;
    fixed_host += layer.host_bytes;
    all_hidden += layer.input;
  }
  if (problem.host_limit < kUnlimited && fixed_host + all_hidden > problem.host_limit) {
    hidden_limit_ = problem.host_limit - fixed_host;
  }
  starts_ = {start_of(problem, false), start_of(problem, true)};
  most_residents_.assign(static_cast<std::size_t>(count) + 1, 0);
  for (std::int32_t i = count - 1; i >= 0; --i) {
    most_residents_[i] = most_residents_[i + 1] + problem.layers[i].partitioned_parameters;
  }
  find_futures();
}

void StepProgram::find_futures() {
  futures_.assign(of_layer_.size() + 1, {});
  for (Future& end : futures_.back()) end.possible = true;
  for (std::int32_t i = layers() - 1; i >= 0; --i) {
    for (std::int32_t s = 0; s < kStates; ++s) {
      Future& best = futures_[i][s];
      for (const Transition& of : (*of_layer_[i])[s]) {
        const Future& then = futures_[i + 1][of.next];
        if (!then.possible) continue;
        const Future through{
            std::max(of.peak, of.kept + then.peak),
            std::max(of.peak + of.resident + then.resident, of.kept + of.resident + then.peak_resident),
            of.resident + then.resident, true};
        if (!best.possible) best = through;
        best.peak = std::min(best.peak, through.peak);
        best.peak_resident = std::min(best.peak_resident, through.peak_resident);
        best.resident = std::min(best.resident, through.resident);
      }
    }
  }
}

}  // namespace trimtab::tuner::h3t
