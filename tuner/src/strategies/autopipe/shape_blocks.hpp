#pragma once

// A shape of a plan as AutoPipe has it, every stage alike, and the chain of blocks that it leaves to be cut: measured
// by the run's evaluator, so that any cost model's stages can be planned. One per search.

#include <optional>
#include <vector>

#include "search/strategy.hpp"
#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::autopipe {

struct Shape {
  std::int32_t microbatch = 1;
  std::int32_t stages = 1;
  Split split;  // of every stage
};

// Every shape of the run's space, in order of microbatch, stages and split. Whether these, with all cuts, are the whole
// space: no stage can have other devices or another split than its neighbour.
struct Shapes {
  std::vector<Shape> shapes;
  bool whole_space = true;
};
[[nodiscard]] Shapes shapes_of(const Model& model, const PlanSpace& space);

class ShapeBlocks {
 public:
  // `run` must outlive this.
  ShapeBlocks(SearchRun& run, const Shape& shape, Transfers transfers);

  // Operators that no cut parts are one block; of a very long model those of a layer, or of several. Nothing where a
  // cost is missing or the run was stopped. REQUIRES: shape.stages > 1.
  [[nodiscard]] std::optional<Blocks> blocks();
  // Adds the reach of each stage and, where the space has it, the recompute that the evaluator chooses for its memory.
  // False where the run was stopped. The blocks must not outlive this.
  [[nodiscard]] bool limit_memory(Blocks& blocks);
  // Whether every cut of the space is one between blocks.
  [[nodiscard]] bool every_cut() const { return first_.size() == run_.space().cuts.size() + 1; }
  // The same with every operator recomputed, for partitions to begin from where memory is short.
  [[nodiscard]] Blocks recomputed(const Blocks& blocks);

  [[nodiscard]] Candidate candidate(Ends ends) const;
  [[nodiscard]] Candidate even_candidate() const;  // even cuts by layers
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  [[nodiscard]] Candidate with_operators(const std::vector<std::int32_t>& ends) const;
  // Of blocks [begin, end) as stage x. `recompute`: none = the evaluator's choice.
  const StagePrice& price(std::int32_t x, std::int32_t begin, std::int32_t end,
                          std::optional<std::vector<Range>> recompute);
  [[nodiscard]] std::int32_t operator_at(std::int32_t block) const {
    return block < count_ ? first_[block] : run_.space().operators;
  }
  bool add_times(Blocks& blocks);
  bool add_transfers(Blocks& blocks);

  SearchRun& run_;
  Shape shape_;
  Transfers transfers_;
  std::vector<std::int32_t> first_;  // operator of each block
  std::int32_t count_;
  Candidate probe_;
};

}  // namespace trimtab::tuner::autopipe
