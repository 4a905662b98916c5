#pragma once

// Floors under the native model's stages, for one microbatch size: the bound's program (lower_bound.cpp) asks for
// them. Two ways: a stage of one split is priced as the search prices it; where splits may change from operator to
// operator, or stages are too many, prefix sums of each operator's least times, with what its memory must cost at a few
// prices of a byte (Lagrangian bounds). One search and microbatch each; not thread-safe.

#include "native/step/native_evaluator.hpp"
#include "solvers/suffix_floor.hpp"

namespace trimtab::tuner {

struct PlacedStage {
  std::int32_t begin = 0, end = 0;  // operators
  std::int32_t first_device = 0, devices = 1;
  std::int32_t held = 1;  // microbatches
};

// One way to run a stage, or all of them: dp is 0 then.
struct StageWay {
  StageFloor floor;
  std::int32_t dp = 0, tp = 0;
};

// Whether half a microbatch may run by itself: in a sliced warm-up or as a sub-batch.
[[nodiscard]] bool may_halve(const PlanSpace& space);
// All-reduces of `tp` ranks that an operator's pass over `samples` contains and that sub-batches may hide; ms.
[[nodiscard]] double hidden_reduces_ms(const CostTable::Tables& tables, const PlanSpace& space, std::int32_t group,
                                       std::int32_t samples, std::int32_t tp);
// What a sub-batch's passes over an operator are made of, in ms that are scaled as computing is: `forward` and
// `backward` are computing alone, and each pass reduces beside them. No sub-batch of these costs has less of both
// together, however little of `reduces` its all-reduces take.
struct HalvedParts {
  double forward = 0, backward = 0, reducing = 0;
};
[[nodiscard]] HalvedParts halved_parts(const NativeCostModel& cost_model, const OperatorCosts& half, double reduces);
// What an operator's forward pass takes at least as two sub-batches: each takes `half`, of which no more than `reduces`
// are all-reduces. Scaled as computing is.
[[nodiscard]] double halved_forward_ms(const NativeCostModel& cost_model, const PlanSpace& space, std::int32_t group,
                                       const OperatorCosts& half, double reduces);

class StageFloors {
 public:
  virtual ~StageFloors() = default;
  // Some way is no slower than any way to run the stage; empty where none fits. Valid until the next call.
  virtual std::span<const StageWay> ways(const PlacedStage& stage) = 0;
};

// Of the splits that a stage of each count of devices may have with this microbatch.
using SplitsOfCounts = std::map<std::int32_t, std::vector<Split>>;
// Shards over some of the replicas are in the space too, beside those over all.
[[nodiscard]] SplitsOfCounts splits_of_counts(const Model& model, const PlanSpace& space, std::int32_t microbatch);

// REQUIRES: the space has neither mixed splits nor second dimensions.
class PricedStageFloors final : public StageFloors {
 public:
  PricedStageFloors(NativeEvaluator& evaluator, const SplitsOfCounts& splits, std::int32_t microbatch)
      : evaluator_(evaluator), splits_(splits), microbatch_(microbatch) {}
  std::span<const StageWay> ways(const PlacedStage& stage) override;

 private:
  void add(const PlacedStage& place, const Split& split);

  NativeEvaluator& evaluator_;
  const SplitsOfCounts& splits_;
  std::int32_t microbatch_;
  CandidateStage stage_;
  std::vector<StageWay> ways_;
};

class SummedStageFloors final : public StageFloors {
 public:
  SummedStageFloors(const NativeCostModel& cost_model, const PlanSpace& space, const SplitsOfCounts& splits,
                    std::int32_t microbatch);
  std::span<const StageWay> ways(const PlacedStage& stage) override;

  // Of operators before each, over all counts of devices: a microbatch alone, and devices times its time.
  [[nodiscard]] const std::vector<double>& least_ms() const { return least_ms_; }
  [[nodiscard]] const std::vector<double>& least_device_ms() const { return least_device_ms_; }

 private:
  // An operator in one split, on one rank.
  struct Choice {
    double forward = 0, backward = 0, optimizer = 0;  // ms; whole or in halves
    double first = 0;                                 // of half a microbatch, where it may be sliced
    double again = 0;                                 // recomputed, beside the backward pass's all-reduces
    double states = 0, stored = 0, output = 0;        // bytes; of one microbatch the last two
    double whole_forward = 0, whole_backward = 0;     // ms, of the whole microbatch at once
    HalvedParts half;                                 // ms, where it may run as two sub-batches
    bool halves = false;
  };
  // Of a stage's passes.
  struct Passes {
    std::vector<double> forward, backward;
  };
  struct Choices {
    std::vector<std::vector<Choice>> of_group;
    double tied_states = 0;  // of one byte of shared parameters, at most
  };
  struct Priced {  // at a price of a byte
    double price = 0;
    std::vector<double> sums;
  };
  struct Sums {  // over operators before each
    std::vector<double> forward, first, backward, both, optimizer, bytes;
    std::vector<Passes> streams;  // with shares of two streams' times, where stages may run in sub-batches
    std::vector<Priced> priced;
  };

  [[nodiscard]] std::vector<SplitShape> shapes_of(const std::vector<Split>& splits, std::int32_t microbatch);
  [[nodiscard]] Choices choices_of(const std::vector<Split>& splits, std::int32_t microbatch);
  const Sums& sums_of(std::int32_t devices, std::int32_t held);
  void look_up(const PlacedStage& stage);
  void add_prices(const Choices& choices, std::int32_t held, Sums& sums) const;
  void add_streams(const Choices& choices, Sums& sums) const;
  template <typename Least>
  [[nodiscard]] std::vector<double> least_of_groups(const Choices& choices, Least&& least) const;
  template <typename Least>
  [[nodiscard]] std::vector<double> summed(const Choices& choices, Least&& least) const;
  template <typename Least>
  [[nodiscard]] std::vector<double> summed_bytes(const Choices& choices, Least&& least) const;
  [[nodiscard]] double counted_beyond(const PlacedStage& stage) const;

  const NativeCostModel& cost_model_;
  const CostTable::Tables& tables_;
  const PlanSpace& space_;
  std::vector<std::int32_t> node_of_, devices_;
  LeastSharingCosts sharing_;
  bool switches_;  // stages may keep states and activations on the host: memory forces nothing
  std::map<std::int32_t, Choices> choices_;  // by devices
  std::map<std::pair<std::int32_t, std::int32_t>, Sums> sums_;
  std::vector<double> least_ms_, least_device_ms_;
  PlacedStage known_;  // what `known_sums_` and `room_` are for
  const Sums* known_sums_ = nullptr;
  double room_ = 0;  // bytes beside the process, infinite without a limit
  StageWay way_;
};

// Floors under the time between two stages, whatever their splits.
class TransferFloors {
 public:
  TransferFloors(const NativeCostModel& cost_model, const PlanSpace& space, const SplitsOfCounts& splits,
                 std::int32_t microbatch);
  // Between operators cut - 1 and cut on devices boundary - 1 and boundary; dp = 0: whatever the sender's split.
  double ms(std::int32_t cut, std::int32_t boundary, std::int32_t senders, std::int32_t dp, std::int32_t tp);

 private:
  [[nodiscard]] double least(std::int32_t cut, std::int32_t boundary, std::int32_t senders, std::int32_t dp,
                             std::int32_t tp) const;

  const NativeCostModel& cost_model_;
  const CostTable::Tables& tables_;
  const PlanSpace& space_;
  std::int32_t microbatch_;
  std::vector<std::int32_t> node_of_, devices_;
  std::map<std::int32_t, std::vector<std::pair<std::int32_t, std::int32_t>>> sides_;  // dp and tp by devices
  std::map<std::tuple<double, std::int32_t, std::int32_t, std::int32_t, std::int32_t>, double> known_;
};

}  // namespace trimtab::tuner
