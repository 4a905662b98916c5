#pragma once

// A stage whose operators are all split alike along their default dimension (or all along the faster one: a blend),
// what is recomputed derived by the published rule: its time and memory from prefix sums, without a walk over its
// operators. Equal to stage_parts() with derive_recompute(). Builds recompute tables on first use, so one per search;
// not thread-safe.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "papers/aceso/folding.hpp"
#include "papers/aceso/recompute_rule.hpp"
#include "papers/aceso/recompute_table.hpp"
#include "papers/aceso/repetition.hpp"
#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

struct UniformStage {
  std::int32_t begin = 0, end = 0;
  std::int32_t setting = -1;
  std::int32_t dp = 1, tp = 1;
  Place place;
};

struct UniformPrice {
  double forward = 0, backward = 0, recompute = 0, communication = 0;  // us
  double memory = 0;                                                   // MiB
  [[nodiscard]] double time() const { return forward + backward + recompute + communication; }
};

class UniformStages {
 public:
  // `tables` must outlive this.
  explicit UniformStages(const Tables& tables);

  // Whether tables serve this model; price() walks over the operators otherwise.
  // REQUIRES: stage.setting >= 0 and begin < end.
  [[nodiscard]] UniformPrice price(const UniformStage& stage);
  // Where the model's stages come again.
  [[nodiscard]] const Repetition& repetition() const { return repetition_; }
  // The same operator by operator, with the flags.
  [[nodiscard]] StageParts parts(const UniformStage& stage, std::vector<std::uint8_t>& recompute) const;

 private:
  struct TakenTable {
    RecomputeTable table;
    std::vector<TakenTable*> with;  // by group, where that is taken too; null until it was asked for
  };
  struct Piece {  // operators up to `last` that share a set of taken groups
    std::int32_t last;
    TakenTable* taken;
  };
  struct Effect {
    double time = 0, saved = 0, peak = 0;
  };
  struct Base {
    double memory = 0;  // MiB without recompute
    Sums sums;
  };

  [[nodiscard]] Base base(const UniformStage& stage) const;
  void derive(const UniformStage& stage, double memory, UniformPrice& price);
  // The same without tables.
  void derive_by_operator(const UniformStage& stage, double memory, UniformPrice& price);
  [[nodiscard]] std::vector<OperatorSplit> splits_of(const UniformStage& stage) const;
  [[nodiscard]] UniformPrice price_plainly(const UniformStage& stage) const;
  void gather_gains(const UniformStage& stage);
  [[nodiscard]] std::int32_t largest_gain() const;
  // Takes all of the group, or the first members whose gain exceeds `excess`.
  void take(const UniformStage& stage, std::int32_t group, double excess);
  void add_to_pieces(std::int32_t setting, std::int32_t group, std::int32_t last);
  [[nodiscard]] Effect effect(const UniformStage& stage) const;
  TakenTable* recompute_table(std::int32_t setting, GroupSet taken);
  TakenTable* with(std::int32_t setting, TakenTable& taken, std::int32_t group);

  struct Gain {
    std::int32_t group, count, first;
    double each, all;
    bool used;
  };

  const Tables& tables_;
  Repetition repetition_;
  RecomputePlaces folded_, plain_;
  std::int32_t group_count_ = 0;
  bool aligned_ = true;               // no layout changes between neighbours of one split
  bool tabulated_ = true;             // few enough names, each of one kind
  std::vector<std::int32_t> before_;  // members of each group before an operator: operator, group
  std::vector<std::unordered_map<GroupSet, std::unique_ptr<TakenTable>>> recompute_tables_;  // by setting
  RecomputeRule rule_;
  std::vector<OperatorSplit> splits_;
  std::vector<std::uint8_t> flags_;
  std::vector<Gain> gains_;
  std::vector<Piece> pieces_;
};

}  // namespace trimtab::tuner::aceso
