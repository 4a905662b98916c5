#include "papers/aceso/uniform_stage.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::tuner::aceso {
namespace {

// Walks over a stage's pieces and keeps the run of saved activations that is open.
struct RunWalk {
  double saved = 0, peak = 0, run = 0;

  void add(double mib, bool is_saved, bool kept) {
    if (!is_saved) {
      run = 0;
      return;
    }
    run += mib;
    peak = std::max(peak, run);
    if (kept) {
      run = 0;
    } else {
      saved += mib;
    }
  }
};

}  // namespace

UniformStages::UniformStages(const Tables& tables)
    : tables_(tables),
      repetition_(find_repetition(tables)),
      folded_(tables, Folding(repetition_, true)),
      plain_(tables, Folding(repetition_, false)),
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

UniformStages::Base UniformStages::base(const UniformStage& stage) const {
  const SettingTable& table = tables_.table(stage.setting);
  const Sums& from = table.sums[stage.begin];
  const Sums& to = table.sums[stage.end];
  Base base;
  base.sums = {to.forward - from.forward, to.backward - from.backward, to.weight - from.weight,
               to.activation - from.activation, 0};
  const double reserved =
      std::max(table.forward_reserve(stage.begin, stage.end - 1) + table.backward_reserve(stage.begin, stage.end - 1),
               base.sums.weight);
  const double kept = tables_.row(stage.setting, stage.begin).input + base.sums.activation;
  base.memory = base.sums.weight * tables_.state_multiple() + kept * stage.place.copies + reserved;
  return base;
}

UniformPrice UniformStages::price(const UniformStage& stage) {
  if (!aligned_) return price_plainly(stage);
  const Base of = base(stage);
  UniformPrice price;
  price.forward = of.sums.forward;
  price.backward = of.sums.backward;
  price.communication =
      tables_.transfer(tables_.row(stage.setting, stage.begin).input, stage.place.inter_node_input) +
      tables_.transfer(tables_.row(stage.setting, stage.end - 1).output, stage.place.inter_node_output);
  price.memory = of.memory;
  if (of.memory + tables_.headroom() <= tables_.memory_limit()) return price;
  if (tabulated_) {
    derive(stage, of.memory, price);
  } else {
    derive_by_operator(stage, of.memory, price);
  }
  return price;
}

std::vector<OperatorSplit> UniformStages::splits_of(const UniformStage& stage) const {
  std::vector<OperatorSplit> splits;
  for (std::int32_t op = stage.begin; op < stage.end; ++op) {
    const std::int32_t setting = tables_.behind(stage.setting, op);
    splits.push_back({setting, stage.dp, stage.tp, tables_.alternate(setting)});
  }
  return splits;
}

void UniformStages::derive_by_operator(const UniformStage& stage, double memory, UniformPrice& price) {
  splits_.assign(static_cast<std::size_t>(stage.end - stage.begin), {stage.setting, stage.dp, stage.tp, false});
  const Saved saved = rule_.derive(stage.begin, splits_, stage.place.copies, memory + tables_.headroom(),
                                   tables_.memory_limit(), flags_);
  for (std::int32_t op = stage.begin; op < stage.end; ++op) {
    if (flags_[op - stage.begin] != 0) price.recompute += tables_.row(stage.setting, op).forward;
  }
  price.memory = memory - saved.saved * stage.place.copies + saved.peak;
}

StageParts UniformStages::parts(const UniformStage& stage, std::vector<std::uint8_t>& recompute) const {
  const std::vector<OperatorSplit> splits = splits_of(stage);
  derive_recompute(tables_, stage.begin, splits, stage.place, recompute);
  return stage_parts(tables_, stage.begin, splits, recompute, stage.place);
}

UniformPrice UniformStages::price_plainly(const UniformStage& stage) const {
  std::vector<std::uint8_t> recompute;
  const StageParts all = parts(stage, recompute);
  return {all.forward, all.backward, all.recompute, all.in + all.out, all.memory};
}

void UniformStages::gather_gains(const UniformStage& stage) {
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

std::int32_t UniformStages::largest_gain() const {
  std::int32_t best = -1;
  for (std::size_t i = 0; i < gains_.size(); ++i) {
    if (gains_[i].used) continue;
    const bool better = best < 0 || gains_[i].all > gains_[best].all ||
                        (gains_[i].all == gains_[best].all && gains_[i].first < gains_[best].first);
    if (better) best = static_cast<std::int32_t>(i);
  }
  return best;
}

void UniformStages::derive(const UniformStage& stage, double without, UniformPrice& price) {
  gather_gains(stage);
  pieces_.clear();
  pieces_.push_back({stage.end - 1, recompute_table(stage.setting, 0)});
  const double limit = tables_.memory_limit() - tables_.headroom();
  while (price.memory > limit) {
    const std::int32_t best = largest_gain();
    if (best < 0) return;
    gains_[best].used = true;
    const std::int32_t next = gains_[best].first + 1;
    if (next >= stage.end) return;
    for (Gain& gain : gains_) gain.used = gain.used || gain.group == tables_.facts(next).group;
    take(stage, best, price.memory - limit);
    const Effect after = effect(stage);
    price.recompute = after.time;
    price.memory = without - after.saved * stage.place.copies + after.peak;
  }
}

void UniformStages::take(const UniformStage& stage, std::int32_t index, double excess) {
  const Gain& gain = gains_[index];
  std::int32_t count = gain.count;
  if (gain.all > excess && gain.each > 0) {
    count = std::min(count, static_cast<std::int32_t>(excess / gain.each) + 1);
  }
  const NameGroup& group = tables_.groups()[gain.group];
  const std::int32_t last = count == gain.count ? stage.end - 1 : group.members[group.before[stage.begin] + count - 1];
  add_to_pieces(stage.setting, gain.group, last);
}

void UniformStages::add_to_pieces(std::int32_t setting, std::int32_t group, std::int32_t last) {
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
UniformStages::Effect UniformStages::effect(const UniformStage& stage) const {
  const SettingTable& setting = tables_.table(stage.setting);
  const auto piece_of = [this](std::int32_t op) {
    std::size_t piece = 0;
    while (pieces_[piece].last < op) ++piece;
    return piece;
  };
  const auto taken = [&](std::int32_t op) {
    return op >= stage.begin && ((pieces_[piece_of(op)].taken->table.taken() >> tables_.facts(op).group) & 1U) != 0;
  };
  const auto recomputed = [&](std::int32_t op) { return taken(op) || taken(op - 1); };
  Effect effect;
  RunWalk walk;
  const auto edge = [&](std::int32_t op) {
    if (op + 1 >= stage.end) return;
    const OperatorFacts& facts = tables_.facts(op);
    walk.add(setting.rows[facts.kind].activation * facts.name.activation_factor, recomputed(op) && recomputed(op + 1),
             tables_.keeps_output(op));
  };
  std::int32_t first = stage.begin;
  for (const Piece& piece : pieces_) {
    const RecomputeTable& table = piece.taken->table;
    if (recomputed(first)) effect.time += setting.rows[tables_.facts(first).kind].forward;
    effect.time += table.before(piece.last + 1).time - table.before(first + 1).time;
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
        const std::int32_t rest = run_end < 0 ? begin : run_end + 1;
        walk.peak = std::max(walk.peak, table.largest_run(rest, end));
        walk.run = table.run(end - 1);
      }
      if (tables_.keeps_output(end - 1)) walk.run = 0;
    }
    if (piece.last > first) edge(piece.last);
    first = piece.last + 1;
  }
  effect.saved = walk.saved;
  effect.peak = walk.peak;
  return effect;
}

UniformStages::TakenTable* UniformStages::recompute_table(std::int32_t setting, GroupSet taken) {
  std::unique_ptr<TakenTable>& known = recompute_tables_[setting][taken];
  if (known) return known.get();
  const RecomputePlaces& places = folded_.serve(taken) ? folded_ : plain_;
  known = std::make_unique<TakenTable>(
      TakenTable{RecomputeTable(places, tables_.table(setting), taken),
                 std::vector<TakenTable*>(static_cast<std::size_t>(group_count_), nullptr)});
  return known.get();
}

UniformStages::TakenTable* UniformStages::with(std::int32_t setting, TakenTable& taken, std::int32_t group) {
  TakenTable*& next = taken.with[group];
  if (next == nullptr) next = recompute_table(setting, taken.table.taken() | GroupSet{1} << group);
  return next;
}

}  // namespace trimtab::tuner::aceso
