#pragma once

// The stages of one candidate under the native model, solved operator by operator (stage_program.hpp): for each its
// split, its sharding choice and whether it is recomputed, under the stage's memory; with memory switches
// native_switch_program.hpp does. What a stage waits for, what hides
// behind computing and what peaks does not add up, so the program proposes by added terms, and the evaluator decides.
// One per search; not thread-safe.

#include "native/stage/operator_price.hpp"
#include "solvers/stage_program.hpp"

namespace trimtab::tuner {

// How much of what may hide behind computing counts as time of the stage, and how what happens once a step compares to
// a microbatch.
struct StageGuide {
  double exposed = 1;         // of sharded and replicated parameters' collectives
  double tensor_exposed = 1;  // of tensor-parallel ranks' all-reduces; less in sub-batches, which need even samples
  double once = 0;            // microbatches that a millisecond once a step stands for
};

struct StageSite {
  Range operators;
  std::int32_t devices = 1;
  std::int32_t microbatch = 1;
  std::int32_t held = 1;                    // microbatches in flight
  const std::int32_t* device_of = nullptr;  // the stage's, `devices` of them
  double limit_bytes = 0;                   // 0 = unlimited
};

class NativeStageProgram {
 public:
  // All must outlive this.
  NativeStageProgram(const CostTable::Tables& tables, const PlanSpace& space, const std::vector<std::int32_t>& node_of,
                     SplitCatalog& catalog)
      : tables_(tables), space_(space), node_of_(node_of), catalog_(catalog) {}

  // Where the stage is from now on; calibration as it holds there.
  void place(const StageSite& site, const Calibration& calibration);
  // Of an operator, those that it does not have included.
  [[nodiscard]] std::size_t ways() const { return ways_.size(); }
  [[nodiscard]] StageTerms terms(const StageGuide& guide) const;
  // Bytes of the stage that do not add up are between what these two leave of its memory.
  [[nodiscard]] ByteWindow window() const;
  // With what is recomputed by the model's rule; where the space leaves that free, also as the ways say.
  [[nodiscard]] std::vector<CandidateStage> stages(const StageWays& ways) const;

 private:
  // A way to run an operator.
  struct OperatorSplit {
    Split split;
    SplitShape shape;
    bool alternate = false;
    const SplitPrices* prices = nullptr;
  };

  void add_layout(std::size_t way);
  [[nodiscard]] bool runs(std::int32_t op, const OperatorSplit& way) const;
  [[nodiscard]] const OperatorPrice& price(std::int32_t op, const OperatorSplit& way) const;
  [[nodiscard]] double tied_states() const;
  void put(std::int32_t op, std::size_t way, const StageGuide& guide, StageTerms& terms) const;
  void put_changes(StageTerms& terms) const;
  [[nodiscard]] double change_ms(const OperatorSplit& before, const OperatorSplit& after,
                                 double bytes_per_sample) const;

  const CostTable::Tables& tables_;
  const PlanSpace& space_;
  const std::vector<std::int32_t>& node_of_;
  SplitCatalog& catalog_;
  StageSite site_;
  double computing_ = 1, moving_ = 1, changing_ = 1;  // calibration: passes, gradients, layouts
  std::vector<OperatorSplit> ways_;
  std::vector<std::size_t> layout_of_;  // by way
  std::vector<std::size_t> layouts_;    // a way of each
};

}  // namespace trimtab::tuner
