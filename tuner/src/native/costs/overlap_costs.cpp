#include "native/costs/overlap_costs.hpp"

#include <cmath>

#include "base/numbers.hpp"
#include "schema/sharing/contributed_source.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::string_view kAllReduce = "all_reduce";
constexpr std::string_view kSendReceive = "send_recv";
constexpr std::string_view kStandInLink = "channel_link";
constexpr std::string_view kStandInMemory = "channel_memory";
constexpr std::string_view kStandInSpin = "channel_spin";
constexpr std::array<std::string_view, kCollectivePrimitives> kPrimitiveNames{kAllReduce, "reduce_scatter",
                                                                              "all_gather", "all_to_all", kSendReceive};
// What may be known of a primitive itself, in its order.
constexpr std::array kSteps{OverlapBasis::kTrainingOfClass, OverlapBasis::kTraining, OverlapBasis::kBenchmark,
                            OverlapBasis::kTrainingOtherSize};

// By basis: what the step itself leaves open, as a share of what the slowdown adds. A judgement, not a fit.
constexpr std::array<double, kOverlapBases> kDoubt{0, 0, 0.1, 0.2, 0.3, 0.5, 0};
constexpr std::array<std::string_view, kOverlapBases> kBasisNames{
    "training",          "training, any kernel class",        "benchmark",       "training, other sizes",
    "another primitive", "estimated from the GPU's stand-in", "nothing measured"};

enum class Origin : std::uint8_t { kTraining, kBenchmark, kStandIn };

bool is_host_copy(std::string_view subject) {
  return subject == "host_to_device" || subject == "device_to_host";
}

bool is_stand_in(std::string_view subject) {
  return subject == kStandInLink || subject == kStandInMemory || subject == kStandInSpin;
}

// Agents say the kernel class or how a collective was run; the benchmark's collectives are plain, but for its copies.
Origin origin_of(const Cost& cost) {
  const CostKey& key = cost.key;
  if (is_stand_in(key.subject)) return Origin::kStandIn;
  return key.particular() && !is_host_copy(key.subject) ? Origin::kTraining : Origin::kBenchmark;
}

bool is_slowdown(CostKind kind) {
  return kind == CostKind::kOverlapComputation || kind == CostKind::kOverlapCommunication;
}

Placement placement_of(const CostKey& key) {
  return key.placement == "inter_node" ? Placement::kInterNode : Placement::kIntraNode;
}

std::size_t side_of(CostKind kind) {
  return kind == CostKind::kOverlapComputation ? 0 : 1;
}

std::int32_t group_of(const OverlapSubject& of) {
  return of.primitive == kSendReceive ? 2 : of.group_size;
}

// A rank's input of another primitive that moves the same tensor.
std::int64_t same_tensor(const OverlapSubject& of, std::string_view other) {
  const std::string_view gather = kPrimitiveNames[2];
  const std::int64_t ranks = std::max(1, of.group_size);
  if (of.primitive == gather && other != gather) return of.bytes * ranks;
  if (of.primitive != gather && other == gather) return std::max<std::int64_t>(1, of.bytes / ranks);
  return of.bytes;
}

Slowdown slowdown_of(const std::optional<MeasuredSlowdown>& found, OverlapBasis basis) {
  if (!found) return {};
  const double factor = std::max(1.0, found->factor);
  const double doubt = kDoubt[static_cast<std::size_t>(basis)] * (factor - 1);
  return {factor, root_of_squares(found->error, doubt), basis, found->cost};
}

double published(const Statistics& statistics) {
  return std::max(1.0, statistics.mean() * 1e-6);
}

}  // namespace

OverlapCosts::OverlapCosts(std::span<const Cost> costs) {
  std::vector<Cost> plain;  // slowdowns of which one source counts (tuner/cost_choice.hpp)
  for (const Cost& cost : costs) {
    if (cost.statistics.empty()) continue;
    // What another team's library chose, and what ran beside it there, says nothing here.
    if (cost.key.particular() && contributor_of(cost.source)) continue;
    if (is_slowdown(cost.key.kind) && !cost.key.particular()) plain.push_back(cost);
    if (is_slowdown(cost.key.kind) && cost.key.particular()) add_slowdown(cost);
    const bool crosses = cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint;
    if (crosses && cost.key.channels > 0) add_choice(cost);
  }
  for (const Cost& cost : one_cost_each(plain)) add_slowdown(cost);
  settle();
}

void OverlapCosts::add_slowdown(const Cost& cost) {
  const CostKey& key = cost.key;
  const auto number = static_cast<std::int32_t>(keys_.size());
  keys_.push_back(key);
  const std::size_t side = side_of(key.kind);
  const Origin origin = origin_of(cost);
  if (origin == Origin::kStandIn) {
    stand_ins_[key.subject][side].add(key.kernel_class, key.channels, cost.statistics, number);
    return;
  }
  if (!key.particular()) add_largest(cost);
  Known& known = known_[{key.subject, key.group_size, placement_of(key)}];
  BySide& of = origin == Origin::kTraining ? known.training : known.benchmark;
  of[side].add(key.kernel_class, key.bytes, cost.statistics, number);
}

void OverlapCosts::add_choice(const Cost& cost) {
  const CostKey& key = cost.key;
  const std::int32_t group = group_of({key.subject, key.bytes, key.group_size});
  Chosen& chosen = choices_[{key.subject, group, placement_of(key)}][key.bytes];
  const auto values = static_cast<double>(cost.statistics.count());
  chosen.values += values;
  chosen.channels += values * key.channels;
}

void OverlapCosts::add_largest(const Cost& cost) {
  const CostKey& key = cost.key;
  if (key.subject != kAllReduce) return;
  Largest& largest = largest_[{key.group_size, placement_of(key)}][side_of(key.kind)];
  if (key.bytes < largest.bytes) return;
  if (key.bytes > largest.bytes) largest = {key.bytes, {}};
  largest.slowdown.merge(cost.statistics);
}

void OverlapCosts::settle() {
  for (auto& [place, known] : known_) {
    for (ClassedSlowdowns& of : known.training) of.settle(kEnoughSlowdowns);
    for (ClassedSlowdowns& of : known.benchmark) of.settle(1);
  }
  for (auto& [subject, by_side] : stand_ins_) {
    for (ClassedSlowdowns& of : by_side) of.settle(1);
  }
}

const OverlapCosts::Known* OverlapCosts::find(const OverlapSubject& of) const {
  const auto found = known_.find(Place{std::string(of.primitive), group_of(of), of.placement});
  return found == known_.end() ? nullptr : &found->second;
}

OverlapCosts::Found OverlapCosts::all(const OverlapSubject& of) const {
  Found found;
  found.own = find(of);
  for (std::size_t p = 0; p < kPrimitiveNames.size(); ++p) {
    OverlapSubject other = of;
    other.primitive = kPrimitiveNames[p];
    const bool stands_in = other.primitive != of.primitive && (other.primitive != kSendReceive || of.group_size == 2);
    if (stands_in) found.others[p] = find(other);
  }
  return found;
}

// What one step says of a primitive.
Slowdown OverlapCosts::at(const Known& known, std::int64_t bytes, const Asked& asked, OverlapBasis step) {
  using Reach = ClassedSlowdowns::Reach;
  const auto side = static_cast<std::size_t>(asked.side);
  const bool communication = asked.side == Side::kCommunication;
  const ClassedSlowdowns& training = known.training[side];
  const ClassedSlowdowns& benchmark = known.benchmark[side];
  std::optional<MeasuredSlowdown> found;
  if (step == OverlapBasis::kTrainingOfClass) {
    found = training.of_kind(asked.computation, bytes, Reach::kNear, communication);
  } else if (step == OverlapBasis::kTraining) {
    found = training.of_any(bytes, Reach::kNear);
  } else if (step == OverlapBasis::kBenchmark) {
    found = benchmark.of_kind(asked.computation, bytes, Reach::kNearest, communication);
    if (!found) found = benchmark.unclassed(bytes, Reach::kNearest);
    if (!found) found = benchmark.of_any(bytes, Reach::kNearest);
  } else {
    found = training.of_kind(asked.computation, bytes, Reach::kNearest, communication);
    if (!found) found = training.of_any(bytes, Reach::kNearest);
  }
  return slowdown_of(found, step);
}

Slowdown OverlapCosts::look_up(const OverlapSubject& of, const Found& found, const Asked& asked) const {
  for (const OverlapBasis step : kSteps) {
    if (found.own == nullptr) break;
    const Slowdown said = at(*found.own, of.bytes, asked, step);
    if (said.measured()) return said;
  }
  for (const OverlapBasis step : kSteps) {
    for (std::size_t p = 0; p < kPrimitiveNames.size(); ++p) {
      if (found.others[p] == nullptr) continue;
      const Slowdown said = at(*found.others[p], same_tensor(of, kPrimitiveNames[p]), asked, step);
      if (!said.measured()) continue;
      return slowdown_of(MeasuredSlowdown{said.factor, said.error, said.cost}, OverlapBasis::kOtherPrimitive);
    }
  }
  return of_stand_in(of, asked);
}

// A collective moves at its link's pace, of which one stand-in has a usual one. How much of the slowdown is the
// memory's is between nothing and all: the other two stand-ins, as far as they were measured.
Slowdown OverlapCosts::of_stand_in(const OverlapSubject& of, const Asked& asked) const {
  if (stand_ins_.empty()) return {};
  const std::int32_t channels = channels_of(of);
  const auto reach = channels > 0 ? ClassedSlowdowns::Reach::kNearest : ClassedSlowdowns::Reach::kAnySize;
  const auto read = [&](std::string_view subject) -> std::optional<MeasuredSlowdown> {
    const auto found = stand_ins_.find(std::string(subject));
    if (found == stand_ins_.end()) return std::nullopt;
    const ClassedSlowdowns& side = found->second[static_cast<std::size_t>(asked.side)];
    auto slowdown = side.of_kind(asked.computation, channels, reach, asked.side == Side::kCommunication);
    if (!slowdown) slowdown = side.of_any(channels, reach);
    return slowdown ? slowdown : side.unclassed(channels, reach);
  };
  std::optional<MeasuredSlowdown> link = read(kStandInLink);
  const std::optional<MeasuredSlowdown> memory = read(kStandInMemory);
  const std::optional<MeasuredSlowdown> spin = read(kStandInSpin);
  if (!link && memory && spin) {
    link = MeasuredSlowdown{(memory->factor + spin->factor) / 2, std::max(memory->error, spin->error), memory->cost};
  }
  if (!link) link = memory ? memory : spin;
  Slowdown slowdown = slowdown_of(link, OverlapBasis::kStandIn);
  if (memory && spin) slowdown.error = std::max(slowdown.error, std::abs(memory->factor - spin->factor) / 2);
  return slowdown;
}

// As NCCL chose them for messages of the nearest size; 0 = nobody has seen it.
std::int32_t OverlapCosts::channels_of(const OverlapSubject& of) const {
  const auto found = choices_.find(Place{std::string(of.primitive), group_of(of), of.placement});
  if (found == choices_.end()) return 0;
  const auto apart = [&](std::int64_t bytes) {
    return std::abs(std::log(std::max(1.0, static_cast<double>(bytes))) -
                    std::log(std::max(1.0, static_cast<double>(of.bytes))));
  };
  const auto nearest = std::ranges::min_element(
      found->second, [&](const auto& a, const auto& b) { return apart(a.first) < apart(b.first); });
  return static_cast<std::int32_t>(std::lround(nearest->second.channels / nearest->second.values));
}

Slowdowns OverlapCosts::beside(const OverlapSubject& communication, ComputationKind computation) const {
  if (empty()) return {};
  const Found found = all(communication);
  return {look_up(communication, found, {Side::kComputation, computation}),
          look_up(communication, found, {Side::kCommunication, computation})};
}

Slowdown OverlapCosts::beside_communication(const OverlapSubject& first, std::string_view second) const {
  const std::string both = std::string(first.primitive) + "+" + std::string(second);
  const auto found = known_.find(Place{both, group_of(first), first.placement});
  if (found == known_.end()) return {};
  const ClassedSlowdowns& seen = found->second.training[static_cast<std::size_t>(Side::kCommunication)];
  const Slowdown near =
      slowdown_of(seen.unclassed(first.bytes, ClassedSlowdowns::Reach::kNear), OverlapBasis::kTraining);
  if (near.measured()) return near;
  return slowdown_of(seen.unclassed(first.bytes, ClassedSlowdowns::Reach::kNearest), OverlapBasis::kTrainingOtherSize);
}

Slowdown OverlapCosts::beside_both(const OverlapSubject& first, std::string_view second, std::int64_t second_bytes,
                                   ComputationKind computation) const {
  const Asked asked{Side::kComputation, computation};
  // Agents join the names in the order in which they first saw the two, and tell a group where it is the same.
  for (const std::int32_t group : {group_of(first), 0}) {
    for (const std::string& both : {std::string(first.primitive) + "+" + std::string(second),
                                    std::string(second) + "+" + std::string(first.primitive)}) {
      const Known* const known = find({both, 0, group, first.placement});
      if (known == nullptr) continue;
      for (const OverlapBasis step : kSteps) {
        const Slowdown found = at(*known, first.bytes + second_bytes, asked, step);
        if (found.measured()) return found;
      }
    }
  }
  OverlapSubject other = first;
  other.primitive = second;
  other.bytes = second_bytes;
  const Slowdown of_first = look_up(first, all(first), asked);
  const Slowdown of_second = look_up(other, all(other), asked);
  Slowdown sum = of_first.basis < of_second.basis ? of_second : of_first;
  sum.factor = of_first.factor + of_second.factor - 1;
  sum.error = of_first.error + of_second.error;
  return sum;
}

OverlapSlowdown OverlapCosts::of_benchmark(std::int32_t group_size, Placement placement) const {
  const auto found = largest_.find({group_size, placement});
  if (found == largest_.end()) return {};
  const auto& [computation, communication] = found->second;
  if (computation.slowdown.empty() || communication.slowdown.empty()) return {};
  return {published(computation.slowdown), published(communication.slowdown), true};
}

bool OverlapCosts::seen_in_training(const CostKey& key) const {
  const OverlapSubject of{key.subject, key.bytes, key.group_size, placement_of(key)};
  const Asked asked{key.kind == CostKind::kOverlapComputation ? Side::kComputation : Side::kCommunication,
                    ComputationKind::kUnknown};
  const Known* const known = is_slowdown(key.kind) ? find(of) : nullptr;
  return known != nullptr && at(*known, of.bytes, asked, OverlapBasis::kTraining).measured();
}

std::string OverlapCosts::rests_on(const Slowdown& slowdown) const {
  std::string text(kBasisNames[static_cast<std::size_t>(slowdown.basis)]);
  if (slowdown.cost >= 0) text += ": " + describe(keys_[static_cast<std::size_t>(slowdown.cost)]);
  return text;
}

}  // namespace trimtab::tuner
