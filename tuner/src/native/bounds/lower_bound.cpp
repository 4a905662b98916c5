#include "native/bounds/lower_bound.hpp"

#include "native/bounds/stage_floors.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kStates = 3000000;
constexpr std::size_t kFloors = 8;  // of a state; more are merged, which only lowers them

SuffixFloor smaller(const SuffixFloor& a, const SuffixFloor& b) {
  return {std::min(a.trip, b.trip), std::min(a.last, b.last), std::min(a.end, b.end)};
}

double sum(const SuffixFloor& of) {
  return of.trip + of.last + of.end;
}

struct BoundLimits {
  double best_ms = 0;           // floors from here on are of no interest
  bool idle_devices = false;    // the last devices may be left idle
  std::uint64_t most_ways = 0;  // of stages that may be looked at
  std::size_t most_cuts = 0;    // that are told apart: stages lose what lies between two of more
};

// A plan behind a floor: near the best, though its own time is not known.
struct FlooredPlan {
  double ms = 0;
  Candidate candidate;  // a stage whose split the floors leave open has dp 0
};

// A lower bound over all plans of one microbatch size: a backward dynamic program over (stages left, first device,
// first operator) on floors of the last stages (suffix_floor.hpp), of which each state keeps those that none other is
// below in everything. Deterministic. One use.
class BoundProgram {
 public:
  // All must outlive this. `summed` is of the same microbatch: what it says of the operators before a stage cuts the
  // program short. `halves` are transfers of half a microbatch, or, where none is sliced, the same as `transfers`.
  BoundProgram(const PlanSpace& space, StageFloors& stages, TransferFloors& transfers, TransferFloors& halves,
               const SummedStageFloors& summed, std::int32_t microbatches, const BoundLimits& limits)
      : space_(space),
        stages_(stages),
        transfers_(transfers),
        halves_(halves),
        summed_(summed),
        microbatches_(microbatches),
        limits_(limits) {}

  // best_ms where no plan is faster; nothing where there is too much to look at.
  std::optional<double> run() {
    choose_positions();
    const std::int32_t most = std::min(space_.stages_max, space_.devices);
    const std::size_t states = static_cast<std::size_t>(most + 1) * (space_.devices + 1) * positions_.size();
    if (states > kStates) return std::nullopt;
    floors_.assign(states, {});
    double bound = limits_.best_ms;
    for (std::int32_t left = 1; left <= most; ++left) {
      for (std::int32_t device = 0; device < space_.devices; ++device) {
        const std::size_t first = device == 0 ? 0 : 1;
        const std::size_t end = device == 0 ? 1 : positions_.size() - 1;
        for (std::size_t from = first; from < end; ++from) fill(left, device, from);
        if (ways_ > limits_.most_ways) return std::nullopt;
      }
      if (left < space_.stages_min) continue;
      for (const Kept& kept : at(left, 0, 0)) bound = std::min(bound, kept.floor.end);
    }
    return bound;
  }

  [[nodiscard]] std::uint64_t ways() const { return ways_; }
  // The plans behind what a finished program keeps of whole pipelines, at most `most` of each count of stages.
  [[nodiscard]] std::vector<FlooredPlan> plans(std::int32_t microbatch, std::size_t most) {
    std::vector<FlooredPlan> plans;
    const std::int32_t stages = std::min(space_.stages_max, space_.devices);
    for (std::int32_t left = std::max(1, space_.stages_min); left <= stages; ++left) {
      Floors whole = at(left, 0, 0);
      std::ranges::sort(whole, [](const Kept& a, const Kept& b) { return a.floor.end < b.floor.end; });
      if (whole.size() > most) whole.resize(most);
      for (const Kept& kept : whole) {
        plans.push_back({kept.floor.end, trace(left, kept)});
        plans.back().candidate.microbatch = microbatch;
      }
    }
    return plans;
  }

 private:
  // A floor and the first of its stages: where it ends, and which floor of those behind it it has.
  struct Kept {
    SuffixFloor floor;
    std::uint32_t to = 0, after = 0;
    std::int32_t devices = 0, dp = 0, tp = 0;
  };
  using Floors = std::vector<Kept>;

  // The merged floor keeps the stages of the one that ends first.
  static void merge_nearest(Floors& floors) {
    std::ranges::sort(floors, [](const Kept& a, const Kept& b) { return a.floor.trip < b.floor.trip; });
    const auto lost = [&floors](std::size_t i) {
      const SuffixFloor& a = floors[i].floor;
      const SuffixFloor& b = floors[i + 1].floor;
      return sum(a) + sum(b) - 2 * sum(smaller(a, b));
    };
    std::size_t nearest = 0;
    for (std::size_t i = 1; i + 1 < floors.size(); ++i) {
      if (lost(i) < lost(nearest)) nearest = i;
    }
    const SuffixFloor merged = smaller(floors[nearest].floor, floors[nearest + 1].floor);
    if (floors[nearest + 1].floor.end < floors[nearest].floor.end) floors[nearest] = floors[nearest + 1];
    floors[nearest].floor = merged;
    floors.erase(floors.begin() + static_cast<std::ptrdiff_t>(nearest) + 1);
  }

  [[nodiscard]] Candidate trace(std::int32_t left, const Kept& first) {
    Candidate candidate;
    std::int32_t device = 0;
    for (const Kept* kept = &first;; kept = &at(left, device, kept->to)[kept->after]) {
      CandidateStage stage;
      stage.end = positions_[kept->to];
      stage.devices = kept->devices;
      stage.split.dp = kept->dp;
      stage.split.tp = kept->tp;
      candidate.stages.push_back(std::move(stage));
      device += kept->devices;
      if (--left == 0) return candidate;
    }
  }

  void choose_positions() {
    const std::vector<std::int32_t>& cuts = space_.cuts;
    const std::size_t step = std::max<std::size_t>(1, (cuts.size() + limits_.most_cuts - 1) / limits_.most_cuts);
    positions_ = inside_ = {0};
    for (std::size_t i = 0; i < cuts.size(); i += step) {
      positions_.push_back(cuts[i]);
      inside_.push_back(cuts[std::min(i + step, cuts.size()) - 1]);
    }
    positions_.push_back(space_.operators);
    inside_.push_back(space_.operators);
  }

  void fill(std::int32_t left, std::int32_t device, std::size_t from) {
    const std::int32_t begin = positions_[from];
    if (hopeless(begin, device)) return;
    const std::size_t last = positions_.size() - 1;
    for (std::int32_t count = 1; device + count <= space_.devices; ++count) {
      if (!space_.allows_devices(device, count) || (left == 1 && !ends_at(device + count))) continue;
      const double most = limits_.best_ms * count;
      const bool several = inside_[from] > begin;  // two cuts may lie here
      for (std::size_t to = left == 1 ? last : from + (several ? 0 : 1); to < positions_.size(); ++to) {
        const std::int32_t first = std::min(inside_[from], positions_[to]);
        const std::int32_t end = std::max(first, positions_[to]);
        if (left > 1 && to == last) break;
        const double shared = summed_.least_device_ms()[end] - summed_.least_device_ms()[first];
        if (microbatches_ * shared >= most || ways_ > limits_.most_ways) break;
        extend(left, {first, end, device, count, std::min(left, microbatches_)}, from, to);
      }
    }
  }

  // The stage at `place` before what its end's state keeps.
  void extend(std::int32_t left, const PlacedStage& place, std::size_t from, std::size_t to) {
    const std::int32_t begin = positions_[from];
    Floors& floors = at(left, place.first_device, from);
    const std::int32_t next = place.first_device + place.devices;
    if (left > 1 && at(left - 1, next, to).empty()) return;
    const std::span<const StageWay> ways = stages_.ways(place);
    ways_ += ways.size() + 1;
    for (const StageWay& way : ways) {
      Kept kept{{}, static_cast<std::uint32_t>(to), 0, place.devices, way.dp, way.tp};
      if (left == 1) {
        kept.floor = last_stage(way.floor, microbatches_);
        keep(kept, begin, place.first_device, floors);
        continue;
      }
      if (microbatches_ * way.floor.both >= limits_.best_ms) continue;
      const TransferFloor apart = transfer(place, to, way);
      for (const Kept& after : at(left - 1, next, to)) {
        kept.floor = put_before(way.floor, apart, after.floor, left - 1, microbatches_);
        keep(kept, begin, place.first_device, floors);
        ++kept.after;
      }
    }
  }

  void keep(const Kept& kept, std::int32_t begin, std::int32_t device, Floors& floors) const {
    const SuffixFloor& floor = kept.floor;
    // A microbatch must pass the stages before as well, on its way there and back.
    const double before = summed_.least_ms()[begin];
    if (floor.last + before >= limits_.best_ms || floor.end >= limits_.best_ms || hopeless(begin, device)) return;
    for (const Kept& other : floors) {
      if (other.floor.no_more_than(floor)) return;
    }
    std::erase_if(floors, [&floor](const Kept& other) { return floor.no_more_than(other.floor); });
    floors.push_back(kept);
    if (floors.size() > kFloors) merge_nearest(floors);
  }

  // Whether stages from `begin` on, at least on the devices from `device` on, cannot be part of a plan below best_ms.
  [[nodiscard]] bool hopeless(std::int32_t begin, std::int32_t device) const {
    return device > 0 && microbatches_ * summed_.least_device_ms()[begin] / device >= limits_.best_ms;
  }

  // Least time between the stages on either side of a cut that the position stands for.
  TransferFloor transfer(const PlacedStage& place, std::size_t to, const StageWay& way) {
    const std::int32_t boundary = place.first_device + place.devices;
    TransferFloor least{limits_.best_ms, limits_.best_ms};
    auto cut = std::lower_bound(space_.cuts.begin(), space_.cuts.end(), positions_[to]);
    for (; cut != space_.cuts.end() && *cut < positions_[to + 1]; ++cut) {
      least.whole = std::min(least.whole, transfers_.ms(*cut, boundary, place.devices, way.dp, way.tp));
      least.first = std::min(least.first, halves_.ms(*cut, boundary, place.devices, way.dp, way.tp));
    }
    least.first = std::min(least.first, least.whole);
    return least;
  }

  [[nodiscard]] bool ends_at(std::int32_t device) const {
    return limits_.idle_devices ? device <= space_.devices : device == space_.devices;
  }
  Floors& at(std::int32_t left, std::int32_t device, std::size_t position) {
    return floors_[(static_cast<std::size_t>(left) * (space_.devices + 1) + device) * positions_.size() + position];
  }

  const PlanSpace& space_;
  StageFloors& stages_;
  TransferFloors& transfers_;
  TransferFloors& halves_;
  const SummedStageFloors& summed_;
  std::int32_t microbatches_;
  BoundLimits limits_;
  std::uint64_t ways_ = 0;
  std::vector<std::int32_t> positions_;  // 0, cuts that each stand for those up to the next one, operators
  std::vector<std::int32_t> inside_;     // by position: an operator that no stage from there on begins after
  std::vector<Floors> floors_;           // by stages left, first device, position
};

// Stages that are looked at: as the search prices them, and by prefix sums.
constexpr std::int32_t kPricedOperators = 64;  // of a model whose stages are priced one by one
constexpr std::uint64_t kPriced = 150000;
constexpr std::uint64_t kSummed = 6000000;
constexpr std::uint64_t kOneProgram = 1000000;
constexpr std::size_t kCuts[] = {512, 160, 48};  // that are told apart, until a program ends
constexpr std::int32_t kMostDevices = 64;
constexpr std::size_t kPlansOfCount = 4;  // of stages, of each microbatch
constexpr double kRounding = 1 - 1e-11;   // sums in another order, and times on the simulation's grid

struct OperatorBounds {
  double device_ms = std::numeric_limits<double>::infinity();   // over a step, summed over the replicas
  double stage_ms = std::numeric_limits<double>::infinity();    // over a step, of one replica
  double latency_ms = std::numeric_limits<double>::infinity();  // one microbatch
};

// What half as many samples take, where microbatches may be halved.
struct Halved {
  const OperatorCosts* costs = nullptr;
  double forward = 0;        // both of them
  double reduces = 0;        // all-reduces of one that the other one's computing may hide
  bool sub_batches = false;  // backward passes too
};

void tighten(const OperatorCosts& of, const Halved& half, double microbatches, double ranks, OperatorBounds& bounds) {
  if (of.forward.quality == Quality::kMissing || of.backward.quality == Quality::kMissing) return;
  double forward = of.forward.mean;
  double backward = of.backward.mean;
  double first = forward;  // until something of it has ended
  if (half.costs != nullptr && half.costs->forward.quality != Quality::kMissing) {
    forward = std::min(forward, half.forward);
    first = std::min(first, std::max(0.0, half.costs->forward.mean - half.reduces));
    if (half.sub_batches) backward = std::min(backward, 2 * std::max(0.0, half.costs->backward.mean - half.reduces));
  }
  const double once = forward + backward;
  bounds.device_ms = std::min(bounds.device_ms, microbatches * once * ranks);
  bounds.stage_ms = std::min(bounds.stage_ms, microbatches * once);
  bounds.latency_ms = std::min(bounds.latency_ms, first + backward);
}

// Over every microbatch and split of the space that is priced for this operator's kind.
OperatorBounds bounds_of(const NativeCostModel& cost_model, const PlanSpace& space, LeastSharingCosts& sharing,
                         std::int32_t group) {
  const CostTable::Tables& tables = cost_model.table().tables();
  OperatorBounds bounds;
  for (const std::int32_t microbatch : space.microbatches) {
    const double microbatches = tables.model.global_batch / microbatch;
    for (const std::int32_t tp : space.tensor_parallel) {
      for (std::int32_t dp = 1; dp * tp <= space.devices && dp <= microbatch; ++dp) {
        if (!divides_well(tables.model, microbatch, dp) || (dp > 1 && !space.knobs.data_parallel)) continue;
        const std::int32_t samples = microbatch / dp;
        if (sharing.any()) {
          tighten(sharing.of_groups(samples, tp)[group], {}, microbatches, dp * tp, bounds);
          continue;
        }
        const bool halves = may_halve(space) && samples % 2 == 0;
        for (const bool alternate : {false, true}) {
          if (alternate && !space.alternate_dimensions) continue;
          Halved half;
          if (halves) {
            half.costs = &tables.at(samples / 2, tp, alternate).of_group[group];
            half.sub_batches = space.sub_batches.size() > 1;
            half.reduces = hidden_reduces_ms(tables, space, group, samples / 2, tp);
            half.forward = halved_forward_ms(cost_model, space, group, *half.costs, half.reduces);
          }
          tighten(tables.at(samples, tp, alternate).of_group[group], half, microbatches, dp * tp, bounds);
        }
      }
    }
  }
  return bounds;
}

double fixed_ms(const NativeCostModel& cost_model) {
  return cost_model.table().tables().step_overhead_ms + cost_model.calibration().fixed_ms;
}

// What devices compute, whatever the plan: no step's busiest stage takes less, and no simulated step.
struct ComputingBound {
  double busiest_ms = 0;
  double step_ms = 0;
};

ComputingBound computing_bound(const NativeCostModel& cost_model, const PlanSpace& space) {
  const CostTable::Tables& tables = cost_model.table().tables();
  std::vector<OperatorBounds> of_group;
  const std::vector<std::int32_t> node_of = nodes_of_devices(tables.cluster);
  LeastSharingCosts sharing(tables, node_of, space.sequence);
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    of_group.push_back(bounds_of(cost_model, space, sharing, static_cast<std::int32_t>(g)));
  }
  // An optimizer's work is shared where parameters are split or sharded.
  const bool whole_optimizer =
      space.tensor_parallel.back() == 1 && space.sharded.size() == 1 && !prices_switches(tables, space);
  double shared = 0;
  double longest = 0;
  double latency = 0;
  for (std::int32_t i = 0; i < tables.operators(); ++i) {
    const OperatorBounds& bounds = of_group[tables.group_of[i]];
    if (bounds.device_ms == std::numeric_limits<double>::infinity()) return {};
    const double optimizer = whole_optimizer ? tables.optimizer_sum[i + 1] - tables.optimizer_sum[i] : 0;
    shared += (bounds.device_ms + optimizer) / space.devices;
    longest = std::max(longest, bounds.stage_ms + optimizer);
    latency += bounds.latency_ms;
  }
  const double computing = cost_model.calibration().computation.value;
  return {std::max(shared, longest) * computing, std::max({shared, longest, latency}) * computing};
}

// A bubble shorter than simulated ends steps sooner, though never sooner than their busiest stage does. One that is
// longer leaves a bound a bound.
double bubble_factor(const NativeCostModel& cost_model) {
  return std::min(1.0, cost_model.calibration().bubble.value);
}
double stretched(const NativeCostModel& cost_model, double busiest_ms, double simulated_ms) {
  return busiest_ms + bubble_factor(cost_model) * (simulated_ms - busiest_ms);
}

BoundLimits limits_of(const NativeCostModel& cost_model, const BoundRequest& request, double busiest_ms) {
  BoundLimits limits;
  const double best_ms = request.best_ms - fixed_ms(cost_model);
  limits.best_ms = busiest_ms + (best_ms - busiest_ms) / bubble_factor(cost_model);  // simulated
  limits.idle_devices = request.idle_devices;
  return limits;
}

std::uint64_t share(std::uint64_t of, double effort) {
  return static_cast<std::uint64_t>(static_cast<double>(of) * effort);
}

// Over all microbatches: stages priced one by one while the effort lasts, then by sums, then over fewer cuts, then
// what the devices compute.
class MicrobatchBounds {
 public:
  MicrobatchBounds(const NativeCostModel& cost_model, NativeEvaluator& evaluator, const BoundRequest& request,
                   double busiest_ms)
      : cost_model_(cost_model),
        evaluator_(evaluator),
        space_(evaluator.space()),
        limits_(limits_of(cost_model, request, busiest_ms)),
        priced_left_(share(kPriced, request.effort)),
        summed_left_(share(kSummed, request.effort)) {}

  // Collects plans from now on.
  void collect(std::vector<FlooredPlan>& plans) { plans_ = &plans; }

  double least() {
    double bound = limits_.best_ms;
    for (const std::int32_t microbatch : space_.microbatches) bound = std::min(bound, of_microbatch(microbatch));
    return bound;
  }

 private:
  double of_microbatch(std::int32_t microbatch) {
    const SplitsOfCounts splits = splits_of_counts(evaluator_.model(), space_, microbatch);
    const std::int32_t microbatches = evaluator_.model().global_batch / microbatch;
    TransferFloors transfers(cost_model_, space_, splits, microbatch);
    const bool sliced = space_.sliced_microbatches && microbatch % 2 == 0;
    TransferFloors halves(cost_model_, space_, splits, sliced ? microbatch / 2 : microbatch);
    SummedStageFloors summed(cost_model_, space_, splits, microbatch);
    const double shared = microbatches * summed.least_device_ms().back() / space_.devices;
    if (shared >= limits_.best_ms) return limits_.best_ms;
    const auto run = [&](StageFloors& stages, std::size_t cuts, std::uint64_t& left) {
      limits_.most_ways = std::min(left, kOneProgram);
      limits_.most_cuts = cuts;
      BoundProgram program(space_, stages, transfers, halves, summed, microbatches, limits_);
      const std::optional<double> bound = program.run();
      left -= std::min(left, program.ways());
      if (bound && plans_ != nullptr) add(program.plans(microbatch, kPlansOfCount));
      return bound;
    };
    const bool one_split = !space_.mixed_splits && !space_.alternate_dimensions && space_.sharded.size() == 1 &&
                           !prices_switches(cost_model_.table().tables(), space_);
    if (one_split && space_.sub_batches.size() == 1 && space_.operators <= kPricedOperators) {
      PricedStageFloors priced(evaluator_, splits, microbatch);
      if (const auto bound = run(priced, kPricedOperators, priced_left_)) return std::max(shared, *bound);
    }
    for (const std::size_t cuts : kCuts) {
      if (const auto bound = run(summed, cuts, summed_left_)) return std::max(shared, *bound);
    }
    return shared;
  }

  const NativeCostModel& cost_model_;
  NativeEvaluator& evaluator_;
  const PlanSpace& space_;
  void add(std::vector<FlooredPlan> plans) {
    for (FlooredPlan& plan : plans) {
      const auto& stages = plan.candidate.stages;
      // A cut that stands for several may stand for two of a plan's.
      bool apart = true;
      for (std::size_t s = 1; s < stages.size(); ++s) apart = apart && stages[s - 1].end < stages[s].end;
      if (apart) plans_->push_back(std::move(plan));
    }
  }

  BoundLimits limits_;
  std::vector<FlooredPlan>* plans_ = nullptr;
  std::uint64_t priced_left_, summed_left_;
};

// Tables of states for every stage and device are for clusters of moderate size, and for stages that follow each other.
bool too_large(const PlanSpace& space, const BoundRequest& request) {
  return space.interleaved || request.effort <= 0 || space.devices > kMostDevices ||
         space.stages_max < space.stages_min;
}

// Of stages whose floors leave the split open: the one that is fastest by itself. False where no split of some stage is
// measured for all operators: floors take each operator's own.
bool choose_splits(NativeEvaluator& evaluator, Candidate& candidate) {
  std::int32_t begin = 0;
  std::int32_t device = 0;
  auto left = static_cast<std::int32_t>(candidate.stages.size());
  std::unique_ptr<StagePricer> pricer;
  for (CandidateStage& stage : candidate.stages) {
    if (stage.split.dp == 0) {
      if (!pricer) pricer = evaluator.stage_pricer(candidate.microbatch);
      if (!pricer->allows(stage.devices)) return false;
      stage = pricer->stage(begin, stage.end, {device, stage.devices, left});
    }
    begin = stage.end;
    device += stage.devices;
    --left;
  }
  return true;
}

// The larger of both bounds, the second without what every step takes.
double whole_step(const NativeCostModel& cost_model, double simple, double busiest_ms, double bound) {
  if (bound == std::numeric_limits<double>::infinity()) return simple;
  return std::max(simple, (stretched(cost_model, busiest_ms, bound) + fixed_ms(cost_model)) * kRounding);
}

double whole_step(const NativeCostModel& cost_model, const ComputingBound& bound) {
  if (bound.step_ms <= 0) return 0;
  return stretched(cost_model, bound.busiest_ms, bound.step_ms) + fixed_ms(cost_model);
}

}  // namespace

double computing_bound_ms(const NativeCostModel& cost_model, const PlanSpace& space) {
  return whole_step(cost_model, computing_bound(cost_model, space));
}

double NativeBounds::lower_bound_ms(const BoundRequest& request) {
  const ComputingBound computing = computing_bound(cost_model_, evaluator_.space());
  const double simple = std::min(request.best_ms, whole_step(cost_model_, computing));
  if (too_large(evaluator_.space(), request)) return simple;
  MicrobatchBounds bounds(cost_model_, evaluator_, request, computing.busiest_ms);
  return whole_step(cost_model_, simple, computing.busiest_ms, bounds.least());
}

PlansNearBound NativeBounds::plans_near_bound(const BoundRequest& request) {
  const ComputingBound computing = computing_bound(cost_model_, evaluator_.space());
  const double simple = std::min(request.best_ms, whole_step(cost_model_, computing));
  if (too_large(evaluator_.space(), request)) return {simple, {}};
  std::vector<FlooredPlan> plans;
  MicrobatchBounds bounds(cost_model_, evaluator_, request, computing.busiest_ms);
  bounds.collect(plans);
  PlansNearBound near{whole_step(cost_model_, simple, computing.busiest_ms, bounds.least()), {}};
  std::ranges::stable_sort(plans, [](const FlooredPlan& a, const FlooredPlan& b) { return a.ms < b.ms; });
  for (FlooredPlan& plan : plans) {
    if (choose_splits(evaluator_, plan.candidate)) near.plans.push_back(std::move(plan.candidate));
  }
  return near;
}

}  // namespace trimtab::tuner
