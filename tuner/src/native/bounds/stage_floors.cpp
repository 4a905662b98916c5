#include "native/bounds/stage_floors.hpp"

#include "native/costs/operator_traits.hpp"
#include "native/step/priced_plan.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kPrices = 8;  // of a byte
// Of computing in a mean of both streams: at least half, so that all-reduces that take less than those of the dearer
// placement make no mean smaller.
constexpr double kShares[] = {0.75, 0.5};
constexpr double kBeyond = 4;                // prices beyond the least and the largest that an operator asks
constexpr std::int32_t kPairedDevices = 16;  // up to here every pair of splits is tried for a transfer

void add_partial_shards(std::vector<Split>& splits) {
  const std::vector<Split> whole = splits;
  for (const Split& split : whole) {
    if (split.sharded == ShardedLevel::kNone) continue;
    for (std::int32_t degree = 1; degree < split.dp; ++degree) {
      if (split.dp % degree == 0) splits.push_back({split.dp, split.tp, split.sharded, degree});
    }
  }
}

bool sub_batched(const PlanSpace& space) {
  return space.sub_batches.size() > 1;
}

bool measured(const OperatorCosts& costs) {
  return costs.forward.quality != Quality::kMissing && costs.backward.quality != Quality::kMissing;
}

// Whether nothing but such an operator runs between two all-reduces, wherever one stands: what is in front of it
// reduces too. Layouts that change for nothing would not part it from what is on one rank.
bool alone_between_reduces(const CostTable::Tables& tables, const PlanSpace& space, std::int32_t group) {
  if (space.mixed_splits) return false;
  for (std::int32_t i = 1; i < tables.operators(); ++i) {
    if (tables.group_of[i] != group) continue;
    if (tensor_all_reduces(tables.operator_of(tables.group_of[i - 1])).value_or(0) == 0) return false;
  }
  return true;
}

}  // namespace

SplitsOfCounts splits_of_counts(const Model& model, const PlanSpace& space, std::int32_t microbatch) {
  SplitsOfCounts of;
  for (std::int32_t count = 1; count <= space.devices; ++count) {
    if (!space.device_counts.empty() && !std::ranges::binary_search(space.device_counts, count)) continue;
    std::vector<Split> splits = space.splits(model, microbatch, count);
    if (splits.empty()) continue;
    add_partial_shards(splits);
    of.emplace(count, std::move(splits));
  }
  return of;
}

bool may_halve(const PlanSpace& space) {
  return space.sliced_microbatches || space.sub_batches.size() > 1;
}

// The worst route of the dearer placement: no group of ranks takes more out of an operator.
double hidden_reduces_ms(const CostTable::Tables& tables, const PlanSpace& space, std::int32_t group,
                         std::int32_t samples, std::int32_t tp) {
  if (tp < 2 || space.sub_batches.size() < 2) return 0;
  const std::int32_t reduces = tensor_all_reduces(tables.operator_of(group)).value_or(0);
  if (reduces == 0) return 0;
  SplitShape shape;
  shape.samples = samples;
  shape.split.tp = tp;
  double most = 0;
  for (const Placement placement : {Placement::kIntraNode, Placement::kInterNode}) {
    shape.tensor = tables.links.routes().worst(placement);
    const CollectiveUse use = tensor_use(tables, shape, group);
    most = std::max(most, tables.links.collective(use.primitive, use.bytes, use.group_size, use.route).mean);
  }
  return reduces * most;
}

HalvedParts halved_parts(const NativeCostModel& cost_model, const OperatorCosts& half, double reduces) {
  const Calibration& calibration = cost_model.calibration();
  const double cheaper =
      std::min(1.0, calibration.moving(CommunicationClass::kCollectives) / calibration.computation.value);
  HalvedParts parts;
  parts.forward = std::max(0.0, half.forward.mean - reduces);
  parts.backward = std::max(0.0, half.backward.mean - reduces);
  parts.reducing = std::min({half.forward.mean, half.backward.mean, reduces}) * cheaper;
  return parts;
}

// Both computations, one after the other. An operator that is alone between all-reduces also computes beside the other
// sub-batch's reduction of the one before, and then reduces beside the other's computing: once each is not hidden.
double halved_forward_ms(const NativeCostModel& cost_model, const PlanSpace& space, std::int32_t group,
                         const OperatorCosts& half, double reduces) {
  const HalvedParts parts = halved_parts(cost_model, half, reduces);
  const bool hidden = parts.reducing <= parts.forward;
  if (hidden || !alone_between_reduces(cost_model.table().tables(), space, group)) return 2 * parts.forward;
  return parts.forward + parts.reducing;
}

std::span<const StageWay> PricedStageFloors::ways(const PlacedStage& place) {
  ways_.clear();
  const auto splits = splits_.find(place.devices);
  if (splits == splits_.end()) return ways_;
  for (const Split& split : splits->second) add(place, split);
  return ways_;
}

// Recompute adds to the passes without it: all of it where nothing hides beside computing.
void PricedStageFloors::add(const PlacedStage& place, const Split& split) {
  stage_.end = place.end;
  stage_.devices = place.devices;
  stage_.split = split;
  stage_.recompute.reset();
  const auto priced = [&]() -> const StagePrice& {
    return evaluator_.stage_alone(stage_, place.begin, place.first_device, microbatch_, place.held);
  };
  const StagePrice* price = &priced();
  if (!price->priced || price->excess_bytes > 0) return;
  const double again = price->least_recompute;
  if (!price->recompute_ranges.empty()) {
    stage_.recompute.emplace();
    price = &priced();
  }
  const bool hides = split.sharded > ShardedLevel::kOptimizer;
  StageFloor floor;
  floor.forward = floor.first = price->forward + price->forward_wait;
  if (evaluator_.space().sliced_microbatches && microbatch_ / split.dp % 2 == 0) {
    const double half = evaluator_.half_pass(stage_, place.begin, place.first_device, microbatch_ / 2).forward;
    floor.first = std::min(floor.first, half);
    floor.forward = std::min(floor.forward, 2 * half);
  }
  const double backward = price->backward + price->backward_wait;
  floor.backward = hides ? std::max(backward, price->backward + again) : backward + again;
  floor.last = hides ? std::max(price->last_backward, price->backward + again) : price->last_backward + again;
  floor.both = floor.forward + floor.backward;
  floor.tail = std::max(price->tail, floor.last + price->after);
  ways_.push_back({floor, split.dp, split.tp});
}

SummedStageFloors::SummedStageFloors(const NativeCostModel& cost_model, const PlanSpace& space,
                                     const SplitsOfCounts& splits, std::int32_t microbatch)
    : cost_model_(cost_model),
      tables_(cost_model.table().tables()),
      space_(space),
      node_of_(nodes_of_devices(tables_.cluster)),
      devices_(node_of_.size()),
      sharing_(tables_, node_of_, space.sequence),
      switches_(prices_switches(tables_, space)) {
  std::iota(devices_.begin(), devices_.end(), 0);
  const auto operators = static_cast<std::size_t>(tables_.operators());
  std::vector<double> alone(operators, kInfinite);
  std::vector<double> shared(operators, kInfinite);
  for (const auto& [devices, of] : splits) {
    const Choices& choices = choices_.emplace(devices, choices_of(of, microbatch)).first->second;
    const std::vector<double> both = summed(choices, [](const Choice& c) { return c.forward + c.backward; });
    const std::vector<double> trip = summed(choices, [](const Choice& c) { return c.first + c.backward; });
    for (std::size_t i = 0; i < operators; ++i) {
      const double time = both[i + 1] - both[i];
      if (!(time < kInfinite)) continue;
      alone[i] = std::min(alone[i], trip[i + 1] - trip[i]);
      shared[i] = std::min(shared[i], time * devices);
    }
  }
  least_ms_.assign(operators + 1, 0.0);
  least_device_ms_.assign(operators + 1, 0.0);
  for (std::size_t i = 0; i < operators; ++i) {
    least_ms_[i + 1] = least_ms_[i] + alone[i];
    least_device_ms_[i + 1] = least_device_ms_[i] + shared[i];
  }
}

// What operators take depends on where their ranks lie only if these share sequences.
std::vector<SplitShape> SummedStageFloors::shapes_of(const std::vector<Split>& splits, std::int32_t microbatch) {
  std::vector<SplitShape> shapes;
  const std::int32_t cp = space_.sequence.cp;
  for (const Split& split : splits) {
    const SplitShape first = split_shape(tables_.links.routes(), split, microbatch, node_of_, devices_.data(),
                                         split.dp * split.tp * cp, space_.sequence);
    if (!sharing_.any()) {
      shapes.push_back(first);
      continue;
    }
    const std::vector<SplitShape> everywhere = sharing_.everywhere(first);
    shapes.insert(shapes.end(), everywhere.begin(), everywhere.end());
  }
  return shapes;
}

SummedStageFloors::Choices SummedStageFloors::choices_of(const std::vector<Split>& splits, std::int32_t microbatch) {
  SplitCatalog catalog(tables_);
  const double computing = cost_model_.calibration().computation.value;
  const auto groups = static_cast<std::int32_t>(tables_.group_names.size());
  Choices choices;
  choices.of_group.resize(static_cast<std::size_t>(groups));
  for (const SplitShape& shape : shapes_of(splits, microbatch)) {
    const Split& split = shape.split;
    choices.tied_states = std::max(choices.tied_states, states_per_byte(tables_, shape) / split.tp);
    for (const bool alternate : {false, true}) {
      if (alternate && !space_.alternate_dimensions) continue;
      const SplitPrices& prices = catalog.prices(shape, alternate);
      const bool slices = may_halve(space_) && shape.samples % 2 == 0;
      const OperatorTable* const halves = slices ? &tables_.at(shape.samples / 2, split.tp, alternate) : nullptr;
      for (std::int32_t g = 0; g < groups; ++g) {
        if (!measured(prices.table->of_group[g])) continue;
        const OperatorPrice& of = prices.of_group[g];
        double forward = of.forward;
        double backward = of.backward;
        double first = forward;
        double again = forward;
        HalvedParts parts;
        const bool halved = halves != nullptr && halves->of_group[g].forward.quality != Quality::kMissing;
        if (halved) {
          const OperatorCosts& half = halves->of_group[g];
          const double reduces = hidden_reduces_ms(tables_, space_, g, shape.samples / 2, split.tp);
          parts = halved_parts(cost_model_, half, reduces);
          first = std::min(first, parts.forward);
          forward = std::min(forward, halved_forward_ms(cost_model_, space_, g, half, reduces));
          again = std::min(again, 2 * parts.forward);
          if (sub_batched(space_)) backward = std::min(backward, 2 * parts.backward);
        }
        const double output = std::min(of.stored, of.output);
        choices.of_group[g].push_back(
            {forward * computing,
             backward * computing,
             switches_ ? 0 : of.optimizer * computing,
             first * computing,
             again * computing,
             of.states,
             of.stored - (tables_.operator_of(g).output_saved ? 0 : output),
             output,
             of.forward * computing,
             of.backward * computing,
             {parts.forward * computing, parts.backward * computing, parts.reducing * computing},
             halved});
      }
    }
  }
  return choices;
}

template <typename Least>
std::vector<double> SummedStageFloors::least_of_groups(const Choices& choices, Least&& least) const {
  std::vector<double> of_group;
  for (const std::vector<Choice>& of : choices.of_group) {
    double smallest = kInfinite;
    for (const Choice& choice : of) smallest = std::min(smallest, least(choice));
    of_group.push_back(smallest);
  }
  return of_group;
}

template <typename Least>
std::vector<double> SummedStageFloors::summed(const Choices& choices, Least&& least) const {
  const std::vector<double> of_group = least_of_groups(choices, least);
  std::vector<double> sums{0.0};
  for (const std::int32_t group : tables_.group_of) sums.push_back(sums.back() + of_group[group]);
  return sums;
}

// An operator inside of a layer may keep nothing, where the one behind it is recomputed with it.
template <typename Least>
std::vector<double> SummedStageFloors::summed_bytes(const Choices& choices, Least&& least) const {
  const std::vector<double> ending = least_of_groups(choices, [&](const Choice& c) { return least(c, c.output); });
  const std::vector<double> inside = least_of_groups(choices, [&](const Choice& c) { return least(c, 0); });
  std::vector<double> sums{0.0};
  for (std::int32_t i = 0; i < tables_.operators(); ++i) {
    const std::vector<double>& of_group = tables_.ends_run[i] != 0 ? ending : inside;
    sums.push_back(sums.back() + of_group[tables_.group_of[i]]);
  }
  return sums;
}

// What the sums say too much of a stage: it keeps no output of its last operator, and shared parameters once.
double SummedStageFloors::counted_beyond(const PlacedStage& place) const {
  const Choices& choices = choices_.at(place.devices);
  double output = 0;
  for (const Choice& choice : choices.of_group[tables_.group_of[place.end - 1]])
    output = std::max(output, choice.output);
  double tied_bytes = 0;
  for (const TiedParameters& tied : tables_.model.tied_parameters) {
    const auto inside =
        std::ranges::count_if(tied.operators, [&](std::int32_t op) { return place.begin <= op && op < place.end; });
    if (inside > 1 && !tied.copied) tied_bytes += static_cast<double>((inside - 1) * tied.bytes);
  }
  return place.held * output + tied_bytes * choices.tied_states;
}

// Time with recompute plus what the bytes cost, at prices around those at which operators would be recomputed.
void SummedStageFloors::add_prices(const Choices& choices, std::int32_t held, Sums& sums) const {
  double least = kInfinite;
  double largest = 0;
  for (const std::vector<Choice>& of : choices.of_group) {
    for (const Choice& choice : of) {
      const double freed = (choice.stored - choice.output) * held;
      if (freed <= 0 || choice.again <= 0) continue;
      least = std::min(least, choice.again / freed);
      largest = std::max(largest, choice.again / freed);
    }
  }
  if (largest <= 0) return;
  const double step = std::pow(largest * kBeyond / (least / kBeyond), 1.0 / static_cast<double>(kPrices - 1));
  double price = least / kBeyond;
  for (std::size_t i = 0; i < kPrices; ++i, price *= step) {
    sums.priced.push_back({price, summed_bytes(choices, [price, held](const Choice& c, double kept) {
                             const double whole = price * (c.states + c.stored * held);
                             const double again = c.again + price * (c.states + std::min(c.stored, kept) * held);
                             return c.forward + c.backward + std::min(whole, again);
                           })});
  }
}

// In two sub-batches a stage's pass takes no less than both of their computing, nor than all of their all-reduces, so
// no less than any mean of the two, which is a sum over operators; a pass of whole microbatches may take less.
void SummedStageFloors::add_streams(const Choices& choices, Sums& sums) const {
  if (!sub_batched(space_)) return;
  for (const double computing : kShares) {
    const auto mean = [computing](double whole, double lone, const Choice& c) {
      return c.halves ? std::min(whole, 2 * (computing * lone + (1 - computing) * c.half.reducing)) : whole;
    };
    sums.streams.push_back(
        {summed(choices, [&mean](const Choice& c) { return mean(c.whole_forward, c.half.forward, c); }),
         summed(choices, [&mean](const Choice& c) { return mean(c.whole_backward, c.half.backward, c); })});
  }
}

const SummedStageFloors::Sums& SummedStageFloors::sums_of(std::int32_t devices, std::int32_t held) {
  const auto found = sums_.find({devices, held});
  if (found != sums_.end()) return found->second;
  const Choices& choices = choices_.at(devices);
  Sums& sums = sums_[{devices, held}];
  sums.forward = summed(choices, [](const Choice& c) { return c.forward; });
  sums.first = summed(choices, [](const Choice& c) { return c.first; });
  sums.backward = summed(choices, [](const Choice& c) { return c.backward; });
  sums.both = summed(choices, [](const Choice& c) { return c.forward + c.backward; });
  sums.optimizer = summed(choices, [](const Choice& c) { return c.optimizer; });
  sums.bytes = summed_bytes(
      choices, [held](const Choice& c, double kept) { return c.states + std::min(c.stored, kept) * held; });
  add_streams(choices, sums);
  add_prices(choices, held, sums);
  return sums;
}

void SummedStageFloors::look_up(const PlacedStage& place) {
  const bool same = known_sums_ != nullptr && known_.devices == place.devices && known_.held == place.held &&
                    known_.first_device == place.first_device;
  if (same) return;
  known_ = place;
  known_sums_ = &sums_of(place.devices, place.held);
  const std::int32_t cp = space_.sequence.cp;
  const double limit =
      memory_limit(tables_.cluster, node_of_, devices_.data() + place.first_device * cp, place.devices * cp);
  room_ = limit > 0 && !switches_ ? limit - tables_.process_bytes.mean + 1 : kInfinite;
}

std::span<const StageWay> SummedStageFloors::ways(const PlacedStage& place) {
  if (choices_.find(place.devices) == choices_.end()) return {};
  look_up(place);
  const Sums& sums = *known_sums_;
  const auto between = [&place](const std::vector<double>& of) { return of[place.end] - of[place.begin]; };
  StageFloor& floor = way_.floor;
  floor.forward = between(sums.forward);
  floor.first = between(sums.first);
  floor.backward = between(sums.backward);
  floor.both = between(sums.both);
  if (!(floor.both < kInfinite)) return {};
  for (const Passes& means : sums.streams) {
    floor.forward = std::max(floor.forward, between(means.forward));
    floor.backward = std::max(floor.backward, between(means.backward));
  }
  floor.both = std::max(floor.both, floor.forward + floor.backward);
  if (room_ < kInfinite) {
    const double room = room_ + counted_beyond(place);
    if (between(sums.bytes) > room) return {};
    for (const Priced& priced : sums.priced) {
      floor.both = std::max(floor.both, between(priced.sums) - priced.price * room);
    }
  }
  floor.last = floor.backward;
  floor.tail = floor.last + between(sums.optimizer);
  return {&way_, 1};
}

TransferFloors::TransferFloors(const NativeCostModel& cost_model, const PlanSpace& space, const SplitsOfCounts& splits,
                               std::int32_t microbatch)
    : cost_model_(cost_model),
      tables_(cost_model.table().tables()),
      space_(space),
      microbatch_(microbatch),
      node_of_(nodes_of_devices(tables_.cluster)),
      devices_(node_of_.size()) {
  std::iota(devices_.begin(), devices_.end(), 0);
  for (const auto& [devices, of] : splits) {
    auto& sides = sides_[devices];
    for (const Split& split : of) {
      const std::pair side(split.dp, split.tp);
      if (std::ranges::find(sides, side) == sides.end()) sides.push_back(side);
    }
  }
}

double TransferFloors::ms(std::int32_t cut, std::int32_t boundary, std::int32_t senders, std::int32_t dp,
                          std::int32_t tp) {
  if (space_.devices > kPairedDevices) return 0;
  const std::tuple key(tables_.output[cut - 1], boundary, senders, dp, tp);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  double ms = kInfinite;
  if (dp > 0) {
    ms = least(cut, boundary, senders, dp, tp);
  } else {
    for (const auto& [from_dp, from_tp] : sides_.at(senders)) {
      ms = std::min(ms, least(cut, boundary, senders, from_dp, from_tp));
    }
  }
  known_.emplace(key, ms);
  return ms;
}

double TransferFloors::least(std::int32_t cut, std::int32_t boundary, std::int32_t senders, std::int32_t dp,
                             std::int32_t tp) const {
  double least = kInfinite;
  if (dp < 1 || microbatch_ % dp != 0) return least;
  const std::int32_t cp = space_.sequence.cp;
  const TransferSide from{devices_.data() + (boundary - senders) * cp, dp, tp, cp};
  for (const auto& [receivers, sides] : sides_) {
    if (boundary + receivers > space_.devices || !space_.allows_devices(boundary, receivers)) continue;
    for (const auto& [to_dp, to_tp] : sides) {
      if (microbatch_ % to_dp != 0) continue;
      const TransferSide to{devices_.data() + boundary * cp, to_dp, to_tp, cp};
      const double output = tables_.output[cut - 1] / output_shares(space_.sequence, to_tp);
      const Value value = transfer_time(tables_, node_of_, from, to, output, microbatch_);
      if (value.quality == Quality::kMissing) continue;
      least = std::min(least, value.mean * cost_model_.calibration().moving(CommunicationClass::kTransfers));
    }
  }
  return least;
}

}  // namespace trimtab::tuner
