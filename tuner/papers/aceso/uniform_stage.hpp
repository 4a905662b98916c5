#pragma once

// A stage whose operators are all split alike along their default dimension (or all along the faster one: a blend),
// what is recomputed derived by the published rule: its time and memory from prefix sums, without a walk over its
// operators. Equal to stage_parts() with derive_recompute(). Builds recompute tables on first use, so one per search;
// not thread-safe.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "papers/aceso/recompute_rule.hpp"
#include "papers/aceso/recompute_table.hpp"
#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

struct UniformStage {
  std::int32_t begin = 0, end = 0;
  std::int32_t setting = -1;
  std::int32_t dp = 1, tp = 1;
  Place place;
};

class UniformStages {
 public:
  // `tables` must outlive this.
  explicit UniformStages(const Tables& tables)
      : tables_(tables),
        repetition_(find_repetition(tables)),
        folded_(tables, repetition_, true),
        plain_(tables, repetition_, false),
        group_count_(static_cast<std::int32_t>(tables.groups().size())),
        rule_(tables) {
    const auto& groups = tables.groups();
    tabulated_ = groups.size() <= kMaxGroups &&
                 std::all_of(groups.begin(), groups.end(), [](const NameGroup& group) { return group.one_kind; });
    // Where neighbours of one split need different layouts, a stage is more than its sums.
    for (std::int32_t op = 1; op < tables.operators() && tables.resharding(); ++op) {
      const LayoutRule output = tables.facts(op - 1).layouts.output[0];
      const LayoutRule input = tables.facts(op).layouts.input[0];
      aligned_ = aligned_ && (output == input || output == LayoutRule::kAny || input == LayoutRule::kAny);
    }
    if (!tabulated_) return;
    for (std::int32_t op = 0; op <= tables.operators(); ++op) {
      for (const NameGroup& group : groups) before_.push_back(group.before[op]);
    }
    recompute_tables_.resize(static_cast<std::size_t>(tables.settings()));
    gains_.reserve(groups.size());
    pieces_.reserve(groups.size() + 1);
  }

  // REQUIRES: stage.setting >= 0 and begin < end.
  [[nodiscard]] StageCost price(const UniformStage& stage) {
    if (!aligned_) {
      const StageParts all = parts(stage, flags_);
      return {all.forward + all.backward + all.recompute + (all.in + all.out), all.memory};
    }
    const SettingTable& table = tables_.table(stage.setting);
    const Sums& from = table.sums[stage.begin];
    const Sums& to = table.sums[stage.end];
    const double weight = to.weight - from.weight;
    const double reserved = std::max(
        table.forward_reserve(stage.begin, stage.end - 1) + table.backward_reserve(stage.begin, stage.end - 1), weight);
    const double input = tables_.row(stage.setting, stage.begin).input;
    const double kept = input + (to.activation - from.activation);
    const double communication =
        tables_.transfer(input, stage.place.inter_node_input) +
        tables_.transfer(tables_.row(stage.setting, stage.end - 1).output, stage.place.inter_node_output);
    Recompute recompute{0, weight * tables_.state_multiple() + kept * stage.place.copies + reserved};
    if (recompute.memory + tables_.headroom() > tables_.memory_limit()) {
      recompute = tabulated_ ? derive(stage, recompute.memory) : derive_by_operator(stage, recompute.memory);
    }
    const double computing = (to.forward - from.forward) + (to.backward - from.backward);
    return {computing + recompute.time + communication, recompute.memory};
  }
  // Where the model's stages come again.
  [[nodiscard]] const Repetition& repetition() const { return repetition_; }
  // The same operator by operator, with the flags.
  [[nodiscard]] StageParts parts(const UniformStage& stage, std::vector<std::uint8_t>& recompute) const {
    const std::vector<OperatorSplit> splits = splits_of(stage);
    derive_recompute(tables_, stage.begin, splits, stage.place, recompute);
    return stage_parts(tables_, stage.begin, splits, recompute, stage.place);
  }

 private:
  struct TakenTable {
    RecomputeTable table;
    std::vector<TakenTable*> with;  // by group, where that is taken too; null until it was asked for
  };
  struct Piece {  // operators up to `last` that share a set of taken groups
    std::int32_t last;
    TakenTable* taken;
  };
  struct Recompute {
    double time = 0;    // us
    double memory = 0;  // MiB of the stage with it
  };

  [[nodiscard]] Recompute derive(const UniformStage& stage, double without) {
    gather_gains(stage);
    pieces_.clear();
    pieces_.push_back({stage.end - 1, recompute_table(stage.setting, 0)});
    const double limit = tables_.memory_limit() - tables_.headroom();
    Recompute recompute{0, without};
    while (recompute.memory > limit) {
      const std::int32_t best = largest_gain();
      if (best < 0) break;
      gains_[best].used = true;
      const std::int32_t next = gains_[best].first + 1;
      if (next >= stage.end) break;
      for (Gain& gain : gains_) gain.used = gain.used || gain.group == tables_.facts(next).group;
      take(stage, best, recompute.memory - limit);
      const Saved saved = effect(stage, recompute.time);
      recompute.memory = without - saved.saved * stage.place.copies + saved.peak;
    }
    return recompute;
  }
  // The same without tables.
  [[nodiscard]] Recompute derive_by_operator(const UniformStage& stage, double without) {
    splits_.assign(static_cast<std::size_t>(stage.end - stage.begin), {stage.setting, stage.dp, stage.tp, false});
    const Saved saved = rule_.derive(stage.begin, splits_, stage.place.copies, without + tables_.headroom(),
                                     tables_.memory_limit(), flags_);
    Recompute recompute{0, without - saved.saved * stage.place.copies + saved.peak};
    for (std::int32_t op = stage.begin; op < stage.end; ++op) {
      if (flags_[op - stage.begin] != 0) recompute.time += tables_.row(stage.setting, op).forward;
    }
    return recompute;
  }
  [[nodiscard]] std::vector<OperatorSplit> splits_of(const UniformStage& stage) const {
    std::vector<OperatorSplit> splits;
    for (std::int32_t op = stage.begin; op < stage.end; ++op) {
      const std::int32_t setting = tables_.behind(stage.setting, op);
      splits.push_back({setting, stage.dp, stage.tp, tables_.alternate(setting)});
    }
    return splits;
  }
  void gather_gains(const UniformStage& stage) {
    gains_.clear();
    const std::int32_t* const from = &before_[static_cast<std::size_t>(stage.begin) * group_count_];
    const std::int32_t* const to = &before_[static_cast<std::size_t>(stage.end) * group_count_];
    for (std::int32_t group = 0; group < group_count_; ++group) {
      const std::int32_t count = to[group] - from[group];
      if (count == 0) continue;
      const NameGroup& of = tables_.groups()[group];
      const std::int32_t first = of.members[from[group]];
      const double each = tables_.row(stage.setting, first).activation * stage.place.copies;
      gains_.push_back({group, count, first, each, each * count, of.never_recomputed});
    }
  }
  [[nodiscard]] std::int32_t largest_gain() const {
    std::int32_t best = -1;
    for (std::size_t i = 0; i < gains_.size(); ++i) {
      if (gains_[i].used) continue;
      const bool better = best < 0 || gains_[i].all > gains_[best].all ||
                          (gains_[i].all == gains_[best].all && gains_[i].first < gains_[best].first);
      if (better) best = static_cast<std::int32_t>(i);
    }
    return best;
  }
  // Takes all of the group, or the first members whose gain exceeds `excess`.
  void take(const UniformStage& stage, std::int32_t index, double excess) {
    const Gain& gain = gains_[index];
    std::int32_t count = gain.count;
    if (gain.all > excess && gain.each > 0) {
      count = std::min(count, static_cast<std::int32_t>(excess / gain.each) + 1);
    }
    const NameGroup& group = tables_.groups()[gain.group];
    const std::int32_t last =
        count == gain.count ? stage.end - 1 : group.members[group.before[stage.begin] + count - 1];
    add_to_pieces(stage.setting, gain.group, last);
  }
  void add_to_pieces(std::int32_t setting, std::int32_t group, std::int32_t last) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Piece old = pieces_[i];
      pieces_[i].taken = with(setting, *old.taken, group);
      if (old.last == last) return;
      if (old.last < last) continue;
      pieces_[i].last = last;
      pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(i) + 1, old);
      return;
    }
  }
  // Operators at the edges of pieces are looked at one by one, those inside come from the piece's table.
  [[nodiscard]] Saved effect(const UniformStage& stage, double& time) const {
    const SettingTable& setting = tables_.table(stage.setting);
    const auto taken = [&](std::int32_t op) {
      if (op < stage.begin) return false;
      std::size_t piece = 0;
      while (pieces_[piece].last < op) ++piece;
      return ((pieces_[piece].taken->table.taken() >> tables_.facts(op).group) & 1U) != 0;
    };
    const auto recomputed = [&](std::int32_t op) { return taken(op) || taken(op - 1); };
    Saved walk;
    const auto edge = [&](std::int32_t op) {
      if (op + 1 >= stage.end) return;
      const OperatorFacts& facts = tables_.facts(op);
      if (recomputed(op) && recomputed(op + 1)) {
        walk.add(setting.rows[facts.kind].activation * facts.name.activation_factor, tables_.keeps_output(op));
      } else {
        walk.run = 0;
      }
    };
    time = 0;
    std::int32_t first = stage.begin;
    for (const Piece& piece : pieces_) {
      const RecomputeTable& table = piece.taken->table;
      if (recomputed(first)) time += setting.rows[tables_.facts(first).kind].forward;
      time += table.before(piece.last + 1).time - table.before(first + 1).time;
      edge(first);
      const std::int32_t begin = first + 1;
      const std::int32_t end = piece.last;  // operators [begin, end) come from the table
      if (begin < end) {
        walk.saved += table.before(end).saved - table.before(begin).saved;
        const std::int32_t run_end = std::min(table.run_end(begin), end - 1);
        if (run_end >= 0) {
          walk.run += table.before(run_end + 1).back - table.before(begin).back;
          walk.peak = std::max(walk.peak, walk.run);
        }
        if (run_end != end - 1) {
          walk.peak = std::max(walk.peak, table.largest_run(run_end < 0 ? begin : run_end + 1, end));
          walk.run = table.run(end - 1);
        }
        if (tables_.keeps_output(end - 1)) walk.run = 0;
      }
      if (piece.last > first) edge(piece.last);
      first = piece.last + 1;
    }
    return walk;
  }
  TakenTable* recompute_table(std::int32_t setting, GroupSet taken) {
    std::unique_ptr<TakenTable>& known = recompute_tables_[setting][taken];
    if (known) return known.get();
    const Folding& folding = folded_.serves(taken) ? folded_ : plain_;
    known = std::make_unique<TakenTable>(
        TakenTable{RecomputeTable(folding, tables_.table(setting), taken),
                   std::vector<TakenTable*>(static_cast<std::size_t>(group_count_), nullptr)});
    return known.get();
  }
  TakenTable* with(std::int32_t setting, TakenTable& taken, std::int32_t group) {
    TakenTable*& next = taken.with[group];
    if (next == nullptr) next = recompute_table(setting, taken.table.taken() | GroupSet{1} << group);
    return next;
  }

  struct Gain {
    std::int32_t group, count, first;
    double each, all;
    bool used;
  };

  const Tables& tables_;
  Repetition repetition_;
  Folding folded_, plain_;
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
