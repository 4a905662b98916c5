// Brute force: every count of stages, every cut, every way to give out and split the devices, every microbatch, whole
// or in sub-batches, and in each stage every set of recomputed operators (where the space leaves them free). A stage's
// choice is left out only when another one of the same stage fits too and is at least as fast in all that the step's
// time depends on: the step's time never falls when a stage takes longer.
//
// Restrictions: a stage of more than kSubsetOperators operators is offered three sets: the best choice for its memory,
// none and all; no more than kSplits splits of the devices for one count of stages are listed; where splits may differ
// inside a stage, one that has more than kLayouts ways to do so is offered uniform ones alone, and likewise for second
// dimensions; memory switches are set on stages of at most kSwitchedLayers layers. The answer is then not called
// proven.

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "plan/candidate.hpp"
#include "plan/recompute_flags.hpp"
#include "plan/switch_plan.hpp"
#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"
#include "strategies/aceso/polish.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kSubsetOperators = 12;
constexpr std::size_t kSplits = 100000;
constexpr double kLayouts = 50000;
constexpr std::size_t kSwitchedLayers = 2;
constexpr std::size_t kRemembered = 4096;  // stages' choices

bool no_slower(const StagePrice& a, const StagePrice& b) {
  return a.forward + a.forward_wait <= b.forward + b.forward_wait &&
         a.backward + a.recompute + a.backward_wait <= b.backward + b.recompute + b.backward_wait &&
         a.communication <= b.communication && a.last_backward <= b.last_backward && a.tail <= b.tail &&
         a.after <= b.after && a.tail - a.after <= b.tail - b.after && a.step_ms <= b.step_ms &&
         a.forward_launch <= b.forward_launch && a.backward_launch <= b.backward_launch;
}

// One way to run a stage.
struct Choice {
  CandidateStage stage;
  StagePrice price;
};

class Exhaustive {
 public:
  explicit Exhaustive(SearchRun& run) : run_(run), evaluator_(run.evaluator()), space_(run.space()) {}

  StrategyEnd search() {
    for (const std::int32_t microbatch : space_.microbatches) {
      PlanSpace used = space_;
      for (used.devices = run_.options().idle_devices ? 1 : space_.devices; used.devices <= space_.devices;
           ++used.devices) {
        for (std::int32_t stages = space_.stages_min; stages <= space_.stages_max; ++stages) {
          give_devices(used, microbatch, stages);
        }
      }
    }
    return {"exhausted", complete_ && !run_.stopped()};
  }

 private:
  void give_devices(const PlanSpace& used, std::int32_t microbatch, std::int32_t stages) {
    const auto splits = used.device_splits(run_.model(), microbatch, stages, kSplits);
    complete_ = complete_ && splits.size() < kSplits;
    for (const auto& split : splits) {
      known_.clear();
      candidate_ = {};
      candidate_.microbatch = microbatch;
      for (const std::int32_t devices : split) {
        candidate_.stages.push_back({});
        candidate_.stages.back().devices = devices;
      }
      choose_cuts(0, 0);
    }
  }

  void choose_cuts(std::size_t stage, std::size_t first_cut) {
    if (run_.stopped()) return;
    const std::size_t count = candidate_.stages.size();
    if (stage + 1 == count) {
      candidate_.stages[stage].end = space_.operators;
      layouts_.assign(count, {});
      for (std::size_t s = 0; s < count; ++s) layouts_[s] = layouts(s);
      choose_layouts(0);
      return;
    }
    if (!space_.knobs.uneven_stages) {
      candidate_.stages[stage].end = even_cuts(run_.model(), static_cast<std::int32_t>(count))[stage];
      choose_cuts(stage + 1, 0);
      return;
    }
    const std::size_t left = count - stage - 2;  // cuts still to come after this one
    for (std::size_t i = first_cut; i + left < space_.cuts.size(); ++i) {
      candidate_.stages[stage].end = space_.cuts[i];
      choose_cuts(stage + 1, i + 1);
    }
  }

  // Every way to split the operators of a stage over its devices.
  [[nodiscard]] std::vector<CandidateStage> layouts(std::size_t s) {
    const std::vector<Split> splits = space_.splits(run_.model(), candidate_.microbatch, candidate_.stages[s].devices);
    const Range inside{candidate_.begin_of(s), candidate_.stages[s].end};
    CandidateStage stage = candidate_.stages[s];
    stage.segments.clear();
    stage.alternate.clear();
    std::vector<CandidateStage> all;
    const bool mixed = space_.mixed_splits && std::pow(static_cast<double>(splits.size()), inside.size()) <= kLayouts;
    complete_ = complete_ && (mixed || !space_.mixed_splits || splits.size() < 2 || inside.size() < 2);
    if (mixed) {
      mix_splits(inside, splits, inside.begin, stage, all);
    } else {
      for (const Split& split : splits) {
        stage.split = split;
        add_layout(inside, stage, all);
      }
    }
    return all;
  }

  void mix_splits(const Range& inside, const std::vector<Split>& splits, std::int32_t op, const CandidateStage& stage,
                  std::vector<CandidateStage>& all) {
    if (op == inside.end) {
      add_layout(inside, stage, all);
      return;
    }
    for (const Split& split : splits) {
      CandidateStage next = stage;
      if (op == inside.begin) next.split = split;
      put_split({op, inside.end}, split, inside.begin, next);
      mix_splits(inside, splits, op + 1, next, all);
    }
  }

  // With every set of second dimensions.
  void add_layout(const Range& inside, const CandidateStage& stage, std::vector<CandidateStage>& all) {
    Candidate one;
    one.stages = {stage};
    one.stages[0].alternate = space_.alternate_dimensions ? std::vector<Range>{inside} : std::vector<Range>{};
    canonicalize(run_.model(), one);
    const std::vector<std::int32_t> operators = listed(one.stages[0].alternate);
    const bool too_many =
        static_cast<double>(all.size() + 1) * std::pow(2.0, static_cast<double>(operators.size())) > kLayouts;
    complete_ = complete_ && !too_many;
    const std::uint32_t subsets = too_many ? 1U : 1U << operators.size();
    for (std::uint32_t subset = 0; subset < subsets; ++subset) {
      one.stages[0].alternate.clear();
      for (std::size_t i = 0; i < operators.size(); ++i) {
        if ((subset >> i) & 1U) one.stages[0].alternate.push_back({operators[i], operators[i] + 1});
      }
      one.stages[0].alternate = normalized(std::move(one.stages[0].alternate));
      all.push_back(one.stages[0]);
    }
  }

  [[nodiscard]] static std::vector<std::int32_t> listed(const std::vector<Range>& ranges) {
    std::vector<std::int32_t> operators;
    for (const Range& range : ranges) {
      for (std::int32_t op = range.begin; op < range.end; ++op) operators.push_back(op);
    }
    return operators;
  }

  void choose_layouts(std::size_t stage) {
    if (run_.stopped()) return;
    if (stage == candidate_.stages.size()) {
      for (const SubBatches& sub_batches : space_.sub_batches) {
        candidate_.sub_batches = sub_batches;
        if (sub_batches.count < 2 || may_sub_batch(candidate_)) price_structure();
      }
      candidate_.sub_batches.reset();
      return;
    }
    const CandidateStage before = candidate_.stages[stage];
    for (const CandidateStage& layout : layouts_[stage]) {
      candidate_.stages[stage] = layout;
      choose_layouts(stage + 1);
    }
    candidate_.stages[stage] = before;
  }

  // All recompute sets of all stages of the current structure.
  void price_structure() {
    const Candidate structure = candidate_;
    run_.consider(candidate_);  // also remembers the closest one when nothing fits
    if (!space_.derived_recompute && prepare(true)) {
      excluded_seen_ = false;
      choose_sets(0);
      candidate_ = structure;
      // The sets that were left out count again when a better one is not allowed.
      if (excluded_seen_ && prepare(false)) choose_sets(0);
    }
    candidate_ = structure;
  }

  bool prepare(bool leave_out_slower) {
    if (!evaluator_.prices_stages_apart() || known_.size() >= kRemembered) known_.clear();
    choices_.assign(candidate_.stages.size(), nullptr);
    for (std::size_t s = 0; s < candidate_.stages.size(); ++s) {
      choices_[s] = &known_choices(s, leave_out_slower);
      if (choices_[s]->empty()) return false;
    }
    return true;
  }

  // Structures that differ in other stages share a stage's choices.
  const std::vector<Choice>& known_choices(std::size_t s, bool leave_out_slower) {
    const CandidateStage& of = candidate_.stages[s];
    const SubBatches& halves = *candidate_.sub_batches;
    key_.assign({static_cast<std::int32_t>(s), candidate_.begin_of(s), of.end, leave_out_slower, halves.count,
                 halves.cross_pass, halves.recompute_after_communication,
                 static_cast<std::int32_t>(of.segments.size())});
    append(of.split, key_);
    for (const CandidateSegment& segment : of.segments) {
      key_.push_back(segment.end);
      append(segment.split, key_);
    }
    append(of.alternate, key_);
    if (s + 1 < candidate_.stages.size()) append(segments_of(candidate_.stages[s + 1]).front().split, key_);
    const auto found = known_.find(key_);
    if (found != known_.end()) return found->second;
    return known_.emplace(key_, fitting_choices(s, leave_out_slower)).first->second;
  }

  [[nodiscard]] std::vector<std::vector<Range>> sets_of(std::size_t s) {
    const Range inside{candidate_.begin_of(s), candidate_.stages[s].end};
    if (!space_.knobs.recompute) return {{}};
    if (inside.size() > kSubsetOperators) {
      complete_ = false;
      return {{}, evaluator_.stage(candidate_, s).recompute_ranges, {inside}};
    }
    std::vector<std::vector<Range>> sets;
    RecomputeFlags flags(static_cast<std::size_t>(space_.operators), 0);
    for (std::uint32_t subset = 0; subset < (1U << inside.size()); ++subset) {
      for (std::int32_t i = 0; i < inside.size(); ++i) flags[inside.begin + i] = (subset >> i) & 1U;
      sets.push_back(ranges_of(flags, inside));
    }
    return sets;
  }

  std::vector<Choice> fitting_choices(std::size_t s, bool leave_out_slower) {
    std::vector<Choice> kept;
    const CandidateStage before = candidate_.stages[s];
    for (const std::vector<Range>& set : sets_of(s)) {
      candidate_.stages[s].recompute = set;
      const StagePrice& price = evaluator_.stage(candidate_, s);
      keep(candidate_.stages[s], price, leave_out_slower, kept);
    }
    candidate_.stages[s] = before;
    add_switched(s, leave_out_slower, kept);
    return kept;
  }

  void keep(const CandidateStage& stage, const StagePrice& price, bool leave_out_slower,
            std::vector<Choice>& kept) const {
    if (!price.priced || price.excess_bytes > 0) return;
    if (leave_out_slower) {
      const auto covers = [&](const Choice& one) { return replaces(one.stage, one.price, stage, price); };
      if (std::ranges::any_of(kept, covers)) return;
      std::erase_if(kept, [&](const Choice& one) { return replaces(stage, price, one.stage, one.price); });
    }
    kept.push_back({stage, price});
  }

  // With memory switches in any stage no microbatch is sliced, which may be faster than what they gain.
  [[nodiscard]] bool replaces(const CandidateStage& by, const StagePrice& price, const CandidateStage& other,
                              const StagePrice& others) const {
    if (space_.sliced_microbatches && by.switches && !other.switches) return false;
    return no_slower(price, others);
  }

  // Every combination of memory switches of every layer.
  void add_switched(std::size_t s, bool leave_out_slower, std::vector<Choice>& kept) {
    const CandidateStage before = candidate_.stages[s];
    const bool halves = candidate_.sub_batches && candidate_.sub_batches->count > 1;
    SwitchChooser* const chooser = evaluator_.switch_chooser();
    if (halves || chooser == nullptr) return;
    const std::optional<CandidateStage> some = chooser->with_switches(candidate_, s);
    if (!some || !(some->split == before.split) || some->segments != before.segments) return;
    const std::vector<Range> layers = layers_inside(run_.model(), {candidate_.begin_of(s), before.end});
    complete_ = complete_ && layers.size() <= kSwitchedLayers;
    if (layers.size() > kSwitchedLayers) return;
    h3t::Switching switching(layers.size());
    const auto ways = static_cast<std::size_t>(std::pow(h3t::kCombinations, layers.size()));
    for (std::size_t way = 0; way < ways && !run_.stopped(); ++way) {
      std::size_t rest = way;
      for (h3t::LayerSwitches& of : switching) {
        of = h3t::all_combinations()[rest % h3t::kCombinations];
        rest /= h3t::kCombinations;
      }
      const auto may = [this](const h3t::LayerSwitches& of) { return h3t::is_within(of, space_.switches); };
      if (!std::ranges::all_of(switching, may)) continue;
      candidate_.stages[s].switches = h3t::plan_switches(layers, switching);
      candidate_.stages[s].recompute = h3t::rematerialized(layers, switching);
      keep(candidate_.stages[s], evaluator_.stage(candidate_, s), leave_out_slower, kept);
    }
    candidate_.stages[s] = before;
  }

  void choose_sets(std::size_t stage) {
    if (run_.stopped()) return;
    if (stage == choices_.size()) {
      const Score score = evaluator_.price(candidate_);
      const bool allowed = run_.consider_plan(score, [this] { return evaluator_.plan(candidate_); });
      excluded_seen_ = excluded_seen_ || !allowed;
      return;
    }
    for (const Choice& choice : *choices_[stage]) {
      candidate_.stages[stage] = choice.stage;
      choose_sets(stage + 1);
    }
  }

  SearchRun& run_;
  Evaluator& evaluator_;
  const PlanSpace& space_;
  Candidate candidate_;
  std::vector<std::vector<CandidateStage>> layouts_;                         // by stage
  std::vector<const std::vector<Choice>*> choices_;                          // by stage, of those that are known
  std::unordered_map<LookupKey, std::vector<Choice>, LookupKeyHash> known_;  // of one split of the devices
  LookupKey key_;                                                            // the one looked up
  bool excluded_seen_ = false;
  bool complete_ = true;
};

}  // namespace

StrategyEnd run_exhaustive(SearchRun& run, const std::optional<Candidate>& /*start*/) {
  return Exhaustive(run).search();
}

}  // namespace trimtab::tuner
