#include "strategies/unified/climb.hpp"
#include "strategies/candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/switch_plan.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::unified {
namespace {

constexpr int kRounds = 40;

void toggle(std::int32_t op, std::vector<Range>& ranges) {
  std::vector<Range> kept;
  bool was_in = false;
  for (const Range& range : ranges) {
    if (!range.contains(op)) {
      kept.push_back(range);
      continue;
    }
    was_in = true;
    kept.push_back({range.begin, op});
    kept.push_back({op + 1, range.end});
  }
  if (!was_in) kept.push_back({op, op + 1});
  ranges = normalized(std::move(kept));
}

class Climb {
 public:
  Climb(SearchRun& run, Candidate from, const ClimbOptions& options)
      : run_(run), best_(std::move(from)), score_(run.consider(best_)), options_(options) {}

  void run() {
    for (int round = 0; round < kRounds && !ended(); ++round) {
      bool better = move_cuts();
      better = change_splits() || better;
      better = change_switches() || better;
      if (options_.operators) better = change_layers() || better;
      better = move_segments() || better;
      if (options_.operators) better = toggle_operators() || better;
      if (!better) return;
    }
  }

 private:
  [[nodiscard]] bool ended() { return priced_ >= options_.relatives || run_.stopped(); }

  bool accept(Candidate candidate) {
    ++priced_;
    const Score score = run_.consider(candidate);
    if (!score.better_than(score_)) return false;
    best_ = std::move(candidate);
    score_ = score;
    return true;
  }

  bool move_cuts() {
    const std::vector<std::int32_t>& cuts = run_.space().cuts;
    bool better = false;
    if (!run_.space().knobs.uneven_stages) return better;
    for (std::size_t s = 0; s + 1 < best_.stages.size() && !ended(); ++s) {
      for (const std::int32_t by : {-13, -3, -1, 1, 3, 13}) {
        const auto at = std::lower_bound(cuts.begin(), cuts.end(), best_.stages[s].end) - cuts.begin() + by;
        if (at < 0 || at >= static_cast<std::ptrdiff_t>(cuts.size())) continue;
        const std::int32_t end = cuts[at];
        if (end <= best_.begin_of(s) || end >= best_.stages[s + 1].end) continue;
        Candidate moved = best_;
        moved.stages[s].end = end;
        fit_to_range(moved.begin_of(s), moved.stages[s]);
        fit_to_range(end, moved.stages[s + 1]);
        switch_again(moved, s);
        switch_again(moved, s + 1);
        better = accept(std::move(moved)) || better;
      }
    }
    return better;
  }

  bool change_splits() {
    bool better = false;
    for (std::size_t s = 0; s < best_.stages.size() && !ended(); ++s) {
      if (!best_.stages[s].segments.empty() || best_.stages[s].switches) continue;
      for (const Split& split : run_.space().splits(run_.model(), best_.microbatch, best_.stages[s].devices)) {
        if (split == best_.stages[s].split) continue;
        Candidate changed = best_;
        changed.stages[s].split = split;
        better = accept(std::move(changed)) || better;
      }
    }
    return better;
  }

  [[nodiscard]] std::optional<CandidateStage> with_switches(const Candidate& candidate, std::size_t s) {
    SwitchChooser* const chooser = run_.evaluator().switch_chooser();
    return chooser != nullptr ? chooser->with_switches(candidate, s) : std::nullopt;
  }

  // After a cut of a stage that had switches has moved.
  void switch_again(Candidate& moved, std::size_t s) {
    if (!best_.stages[s].switches) return;
    std::optional<CandidateStage> with = with_switches(moved, s);
    if (with) {
      moved.stages[s] = *std::move(with);
    } else {
      moved.stages[s].recompute.reset();
    }
  }

  // Memory switches of a stage that are best for its memory, with every split of its devices; or none.
  bool change_switches() {
    bool better = false;
    if (!run_.space().memory_switches) return better;
    for (std::size_t s = 0; s < best_.stages.size() && !ended(); ++s) {
      if (best_.stages[s].switches) {
        Candidate without = best_;
        without.stages[s].switches.reset();
        without.stages[s].recompute.reset();
        better = accept(std::move(without)) || better;
      }
      for (const Split& split : run_.space().splits(run_.model(), best_.microbatch, best_.stages[s].devices)) {
        better = switch_with(s, split) || better;
      }
    }
    return better;
  }

  bool switch_with(std::size_t s, const Split& split) {
    if (!(split == switchable(split))) return false;
    Candidate changed = best_;
    changed.stages[s] = {};
    changed.stages[s].end = best_.stages[s].end;
    changed.stages[s].devices = best_.stages[s].devices;
    changed.stages[s].split = split;
    std::optional<CandidateStage> with = with_switches(changed, s);
    if (!with) return false;
    changed.stages[s] = *std::move(with);
    return accept(std::move(changed));
  }

  // Every combination of switches of single layers: what the choice of whole stages leaves out.
  bool change_layers() {
    bool better = false;
    for (std::size_t s = 0; s < best_.stages.size(); ++s) {
      if (!best_.stages[s].switches) continue;
      const std::vector<Range> layers = layers_inside(run_.model(), {best_.begin_of(s), best_.stages[s].end});
      for (std::size_t layer = 0; layer < layers.size() && !ended(); ++layer) {
        for (const h3t::LayerSwitches& of : h3t::all_combinations()) {
          if (ended()) break;
          if (!h3t::is_within(of, run_.space().switches)) continue;
          h3t::Switching switching = h3t::switching_of(*best_.stages[s].switches, *best_.stages[s].recompute, layers);
          if (switching[layer] == of) continue;
          switching[layer] = of;
          Candidate changed = best_;
          changed.stages[s].switches = h3t::plan_switches(layers, switching);
          changed.stages[s].recompute = h3t::rematerialized(layers, switching);
          better = accept(std::move(changed)) || better;
        }
      }
    }
    return better;
  }

  bool move_segments() {
    bool better = false;
    for (std::size_t s = 0; s < best_.stages.size() && !ended(); ++s) {
      for (std::size_t i = 0; i + 1 < best_.stages[s].segments.size(); ++i) {
        for (const std::int32_t by : {-4, -1, 1, 4}) {
          if (i + 1 >= best_.stages[s].segments.size()) break;
          const auto& segments = best_.stages[s].segments;
          const std::int32_t end = segments[i].end + by;
          const std::int32_t begin = i > 0 ? segments[i - 1].end : best_.begin_of(s);
          if (end <= begin || end >= segments[i + 1].end) continue;
          Candidate moved = best_;
          moved.stages[s].segments[i].end = end;
          better = accept(std::move(moved)) || better;
        }
      }
    }
    return better;
  }

  // Single operators: the other sharding choice, recomputed or not.
  bool toggle_operators() {
    bool better = false;
    for (std::size_t s = 0; s < best_.stages.size(); ++s) {
      if (best_.stages[s].switches) continue;  // hold for whole layers, with their recompute
      for (std::int32_t op = best_.begin_of(s); op < best_.stages[s].end && !ended(); ++op) {
        if (run_.space().alternate_dimensions && run_.model().operators[op].shardings.size() > 1) {
          Candidate changed = best_;
          toggle(op, changed.stages[s].alternate);
          better = accept(std::move(changed)) || better;
        }
        if (best_.stages[s].recompute) {
          Candidate changed = best_;
          toggle(op, *changed.stages[s].recompute);
          better = accept(std::move(changed)) || better;
        }
      }
    }
    return better;
  }

  SearchRun& run_;
  Candidate best_;
  Score score_;
  ClimbOptions options_;
  int priced_ = 0;
};

}  // namespace

void climb(SearchRun& run, const ClimbOptions& options) {
  const std::vector<Plan> plans = run.shortlist().plans();
  if (plans.empty() || run.stopped()) return;
  std::optional<Candidate> best = candidate_of(plans.front(), run.space());
  if (!best) return;
  if (options.operators && !run.space().derived_recompute) {  // so that single operators may change
    const std::vector<std::vector<Range>> recomputed = recomputed_of(plans.front());
    for (std::size_t s = 0; s < recomputed.size(); ++s) best->stages[s].recompute = recomputed[s];
  }
  Climb(run, *best, options).run();
}

}  // namespace trimtab::tuner::unified
