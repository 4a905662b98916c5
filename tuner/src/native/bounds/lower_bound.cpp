#include "native/bounds/lower_bound.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "native/bounds/bound_program.hpp"
#include "native/bounds/stage_floors.hpp"
#include "native/costs/tables.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner {
namespace {

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
OperatorBounds bounds_of(const NativeCostModel& cost_model, const PlanSpace& space, std::int32_t group) {
  const CostTable::Tables& tables = cost_model.table().tables();
  OperatorBounds bounds;
  for (const std::int32_t microbatch : space.microbatches) {
    const double microbatches = tables.model.global_batch / microbatch;
    for (const std::int32_t tp : space.tensor_parallel) {
      for (std::int32_t dp = 1; dp * tp <= space.devices && dp <= microbatch; ++dp) {
        if (!divides_well(tables.model, microbatch, dp) || (dp > 1 && !space.knobs.data_parallel)) continue;
        const std::int32_t samples = microbatch / dp;
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
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    of_group.push_back(bounds_of(cost_model, space, static_cast<std::int32_t>(g)));
  }
  // An optimizer's work is shared where parameters are split or sharded.
  const bool whole_optimizer =
      space.tensor_parallel.size() == 1 && space.sharded.size() == 1 && !prices_switches(tables, space);
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

// Tables of states for every stage and device are for clusters of moderate size.
bool too_large(const PlanSpace& space, const BoundRequest& request) {
  return request.effort <= 0 || space.devices > kMostDevices || space.stages_max < space.stages_min;
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
  std::stable_sort(plans.begin(), plans.end(), [](const FlooredPlan& a, const FlooredPlan& b) { return a.ms < b.ms; });
  for (FlooredPlan& plan : plans) {
    if (choose_splits(evaluator_, plan.candidate)) near.plans.push_back(std::move(plan.candidate));
  }
  return near;
}

}  // namespace trimtab::tuner
