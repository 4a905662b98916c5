#pragma once

// Memory switches among the ways of the stage program, under the native model: layer by layer a split, and what of the
// layer is partitioned, prefetched lazily, rematerialized and offloaded. A stage has switches in all of its layers or
// in none (its optimizer is on the host), so these ways never follow ways without. What hides behind computing does not
// add up, and economical switches change nothing else: the program proposes splits, the solver of whole stages
// (SwitchStage::choose) then chooses their switches, and the evaluator decides. What a layer works with is gone before
// the next one's: the program is asked several times, each time with ways alone that work with at most so much, and
// that much less for what adds up. The host's memory is a second limit; here its bytes have a price. One per search;
// not thread-safe.

#include "native/stage/native_stage_program.hpp"
#include "native/stage/switch_stage.hpp"

namespace trimtab::tuner {

class NativeSwitchProgram {
 public:
  // All must outlive this.
  NativeSwitchProgram(const CostTable::Tables& tables, const PlanSpace& space, const std::vector<std::int32_t>& node_of,
                      SplitCatalog& catalog, SwitchStage& pricing)
      : tables_(tables), space_(space), node_of_(node_of), catalog_(catalog), pricing_(pricing) {}

  // Where the stage is from now on. Splits that lack a cost are left out.
  void place(const StageSite& site, const Calibration& calibration);
  // The stage's splits that switches go with, most replicas first.
  [[nodiscard]] std::vector<Split> splits() const;
  [[nodiscard]] std::size_t layers() const { return ranges_.size(); }
  [[nodiscard]] std::size_t ways() const;  // of a layer
  // An operator of these is a layer. Ways that work with more than `working` bytes are left out; `host_price` is ms of
  // a step for each byte on the host of a rank.
  [[nodiscard]] StageTerms terms(const StageGuide& guide, double working, double host_price) const;
  // Bytes that ways work with, ascending: `most` of them at most.
  [[nodiscard]] std::vector<double> workings(std::size_t most) const;
  // What `working` bytes leave of the stage's memory; `ample`: with whatever comes ahead of its layer.
  [[nodiscard]] ByteWindow window(double working) const;
  // On the host of a rank.
  [[nodiscard]] double host_bytes(const StageWays& ways) const;
  // With the splits of these ways and no switches yet.
  [[nodiscard]] CandidateStage stage(const StageWays& ways) const;

 private:
  // The stage's layers in one split.
  struct SplitLayers {
    Split split;
    SplitShape shape;
    std::vector<h3t::LayerProfile> layers;
  };
  [[nodiscard]] std::optional<SplitLayers> layers_of(const Split& split, const Calibration& calibration) const;
  [[nodiscard]] AddedCost added(const h3t::LayerProfile& layer, const h3t::LayerSwitches& switches,
                                const StageGuide& guide) const;
  [[nodiscard]] double host_bytes(const h3t::LayerProfile& layer, const h3t::LayerSwitches& switches) const;
  void put_changes(StageTerms& terms) const;

  const CostTable::Tables& tables_;
  const PlanSpace& space_;
  const std::vector<std::int32_t>& node_of_;
  SplitCatalog& catalog_;
  SwitchStage& pricing_;
  StageSite site_;
  double changing_ = 1;        // calibration, of layouts
  std::vector<Range> ranges_;  // of the layers
  std::vector<SplitLayers> of_split_;
};

}  // namespace trimtab::tuner
