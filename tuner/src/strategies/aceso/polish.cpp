#include "strategies/aceso/polish.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "plan/candidate.hpp"
#include "strategies/aceso/balance.hpp"
#include "strategies/aceso/primitives.hpp"
#include "strategies/aceso/split_moves.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kShiftedStages = 8;  // with more stages, cuts beside a change of devices are balanced instead

class Descent {
 public:
  Descent(SearchRun& run, Scored from, const Reach& reach) : run_(run), best_(std::move(from)), reach_(reach) {}

  Scored run() {
    bool improved = true;
    while (improved && !run_.stopped()) {
      const Candidate from = best_.candidate;
      cuts(from);
      if (reach_.devices) splits(from);
      if (reach_.pairs) cut_pairs(from);
      if (reach_.devices) devices(from);
      if (reach_.microbatches) microbatches(from);
      improved = !(best_.candidate == from);
    }
    return std::move(best_);
  }

 private:
  void attempt(const Candidate& candidate) {
    const Score score = run_.consider(candidate);
    if (score.better_than(best_.score)) best_ = {candidate, score};
  }

  void cuts(const Candidate& from) {
    if (!run_.space().knobs.uneven_stages) return;
    for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
      for (std::int32_t by = -reach_.shift; by <= reach_.shift; ++by) {
        Candidate candidate = from;
        if (by != 0 && shift_cut(run_.space(), s, by, candidate)) attempt(candidate);
      }
    }
  }

  void cut_pairs(const Candidate& from) {
    if (!run_.space().knobs.uneven_stages) return;
    for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
      for (std::size_t t = s + 1; t + 1 < from.stages.size(); ++t) {
        for (const auto& [first, second] : {std::pair(1, 1), std::pair(1, -1), std::pair(-1, 1), std::pair(-1, -1)}) {
          Candidate candidate = from;
          // Two cuts side by side may only move together: try either order.
          const bool shifted =
              shift_cut(run_.space(), s, first, candidate) && shift_cut(run_.space(), t, second, candidate);
          if (shifted) {
            attempt(candidate);
            continue;
          }
          candidate = from;
          if (shift_cut(run_.space(), t, second, candidate) && shift_cut(run_.space(), s, first, candidate))
            attempt(candidate);
        }
      }
    }
  }

  void splits(const Candidate& from) {
    const PlanSpace& space = run_.space();
    if (space.tensor_parallel.size() < 2 && space.sharded.size() < 2) return;
    for (std::size_t s = 0; s < from.stages.size(); ++s) {
      for (const Split& split : space.splits(run_.model(), from.microbatch, from.stages[s].devices)) {
        Candidate candidate = from;
        candidate.stages[s].split = split;
        candidate.stages[s].segments.clear();
        if (candidate.stages[s] == from.stages[s]) continue;
        attempt(candidate);
        beside(candidate);
      }
    }
  }

  void devices(const Candidate& from) {
    for (std::size_t taker = 0; taker < from.stages.size(); ++taker) {
      std::vector<std::int32_t> partners(from.stages.size());
      std::iota(partners.begin(), partners.end(), 0);
      partners.erase(partners.begin() + static_cast<std::ptrdiff_t>(taker));
      for (const bool take : {true, false}) {
        const auto stage = static_cast<std::int32_t>(taker);
        for (const DeviceChange& change : device_changes(run_.space(), from, partners, stage, take)) {
          if (!take && change.size() == 2) continue;  // the partner takes them, too
          Candidate candidate = from;
          if (run_.stopped() || !apply_devices(run_.evaluator(), change, candidate)) continue;
          attempt(candidate);
          beside(candidate);
        }
      }
    }
  }

  // The candidate with its cuts moved to suit a change.
  void beside(const Candidate& candidate) {
    if (!run_.space().knobs.uneven_stages || run_.stopped()) return;
    if (candidate.stages.size() > kShiftedStages || run_.space().tensor_parallel.size() > 1) {
      const Scored balanced = rebalanced(run_, {candidate, run_.evaluator().price(candidate)});
      if (balanced.score.better_than(best_.score)) best_ = balanced;
      return;
    }
    for (std::size_t s = 0; s + 1 < candidate.stages.size(); ++s) {
      for (const std::int32_t by : {-2, -1, 1, 2}) {
        Candidate shifted = candidate;
        if (shift_cut(run_.space(), s, by, shifted)) attempt(shifted);
      }
    }
  }

  void microbatches(const Candidate& from) {
    for (const std::int32_t microbatch : run_.space().microbatches) {
      Candidate candidate = from;
      if (microbatch != from.microbatch && set_microbatch(run_.evaluator(), microbatch, candidate)) attempt(candidate);
    }
  }

  SearchRun& run_;
  Scored best_;
  Reach reach_;
};

constexpr std::int32_t kEveryRange = 10;  // in a stage of at most so many operators every run of them is tried
constexpr std::int32_t kEveryPair = 6;    // the same for every two operators
constexpr int kRounds = 6;

// Ranges that may get another split: every one in small stages; from every operator to the stage's end, and from its
// begin to every operator, in others.
std::vector<Range> ranges_in(const Range& stage) {
  std::vector<Range> ranges;
  for (std::int32_t begin = stage.begin; begin < stage.end; ++begin) {
    for (std::int32_t end = begin + 1; end <= stage.end; ++end) {
      const bool edge = begin == stage.begin || end == stage.end;
      if (edge || stage.size() <= kEveryRange) ranges.push_back({begin, end});
    }
  }
  return ranges;
}

class FineTuning {
 public:
  FineTuning(SearchRun& run, Scored from) : run_(run), best_(std::move(from)) {}

  Scored tune() {
    bool improved = true;
    for (int round = 0; round < kRounds && improved && !run_.stopped(); ++round) {
      const Score before = best_.score;
      for (std::size_t s = 0; s < best_.candidate.stages.size(); ++s) {
        if (run_.space().mixed_splits && !mix_splits(s)) mix_pairs(s);
        if (run_.space().alternate_dimensions) flip_dimensions(s);
      }
      improved = best_.score.better_than(before);
    }
    return std::move(best_);
  }

 private:
  [[nodiscard]] Range operators_of(std::size_t s) const {
    return {best_.candidate.begin_of(s), best_.candidate.stages[s].end};
  }

  bool attempt(Candidate candidate, const char* primitive, std::size_t s) {
    canonicalize(run_.model(), candidate);
    if (candidate == best_.candidate) return false;
    const Score score = run_.consider(candidate);
    if (!score.better_than(best_.score)) return false;
    run_.step(step_of(run_, best_.candidate.stages.size(), "operators of stage " + std::to_string(s), primitive,
                      best_.score, score));
    best_ = {std::move(candidate), score};
    return true;
  }

  // A split, and for tensor parallelism whether along the second dimension.
  struct OperatorChoice {
    Split split;
    bool alternate = false;
  };

  [[nodiscard]] std::vector<OperatorChoice> choices(std::size_t s) const {
    std::vector<OperatorChoice> all;
    const Candidate& from = best_.candidate;
    for (const Split& split : run_.space().splits(run_.model(), from.microbatch, from.stages[s].devices)) {
      all.push_back({split, false});
      if (split.tp > 1 && run_.space().alternate_dimensions) all.push_back({split, true});
    }
    return all;
  }

  static void put(const Range& range, const OperatorChoice& choice, std::int32_t begin, CandidateStage& stage) {
    put_split(range, choice.split, begin, stage);
    std::vector<Range> alternate;
    for (const Range& kept : stage.alternate) {
      if (kept.begin < range.begin) alternate.push_back({kept.begin, std::min(kept.end, range.begin)});
      if (kept.end > range.end) alternate.push_back({std::max(kept.begin, range.end), kept.end});
    }
    if (choice.alternate) alternate.push_back(range);
    stage.alternate = normalized(std::move(alternate));
  }

  bool mix_splits(std::size_t s) {
    const Range inside = operators_of(s);
    bool improved = false;
    for (const OperatorChoice& choice : choices(s)) {
      for (const Range& range : ranges_in(inside)) {
        if (run_.stopped()) return improved;
        Candidate candidate = best_.candidate;
        put(range, choice, inside.begin, candidate.stages[s]);
        improved = attempt(std::move(candidate), "tp and dp of some operators", s) || improved;
      }
    }
    return improved;
  }

  // Two operators at once, where one alone only adds a layout change.
  void mix_pairs(std::size_t s) {
    const Range inside = operators_of(s);
    if (inside.size() > kEveryPair) return;
    const std::vector<OperatorChoice> all = choices(s);
    for (std::int32_t i = inside.begin; i < inside.end; ++i) {
      for (std::int32_t j = i + 1; j < inside.end; ++j) {
        for (const OperatorChoice& first : all) mix_pair(s, i, first, j, all);
      }
    }
  }

  void mix_pair(std::size_t s, std::int32_t i, const OperatorChoice& first, std::int32_t j,
                const std::vector<OperatorChoice>& all) {
    const std::int32_t begin = best_.candidate.begin_of(s);
    for (const OperatorChoice& second : all) {
      if (run_.stopped()) return;
      Candidate candidate = best_.candidate;
      put({i, i + 1}, first, begin, candidate.stages[s]);
      put({j, j + 1}, second, begin, candidate.stages[s]);
      attempt(std::move(candidate), "tp and dp of two operators", s);
    }
  }

  // All operators of a kind at once, then one by one.
  void flip_dimensions(std::size_t s) {
    std::map<std::string, std::vector<std::int32_t>> kinds;
    const Range inside = operators_of(s);
    for (std::int32_t op = inside.begin; op < inside.end; ++op) {
      if (run_.model().operators[op].shardings.size() > 1) kinds[run_.model().operators[op].cost_key].push_back(op);
    }
    for (const auto& [kind, operators] : kinds) flip(s, operators);
    for (const auto& [kind, operators] : kinds) {
      for (const std::int32_t op : operators) flip(s, {op});
    }
    for (const auto& [kind, operators] : kinds) {
      for (std::size_t i = 0; i + 1 < operators.size(); ++i) flip(s, {operators[i], operators[i + 1]});
    }
  }

  void flip(std::size_t s, const std::vector<std::int32_t>& operators) {
    if (run_.stopped()) return;
    Candidate candidate = best_.candidate;
    std::vector<Range>& alternate = candidate.stages[s].alternate;
    std::vector<Range> flipped;
    const Range inside = operators_of(s);
    for (std::int32_t op = inside.begin; op < inside.end; ++op) {
      const bool flips = std::find(operators.begin(), operators.end(), op) != operators.end();
      const bool was =
          std::any_of(alternate.begin(), alternate.end(), [op](const Range& of) { return of.contains(op); });
      if (was != flips) flipped.push_back({op, op + 1});
    }
    alternate = normalized(std::move(flipped));
    attempt(std::move(candidate), "sharding dimension of some operators", s);
  }

  SearchRun& run_;
  Scored best_;
};

}  // namespace

Scored descend(SearchRun& run, Scored from, const Reach& reach) {
  return Descent(run, std::move(from), reach).run();
}

void put_split(const Range& inside, const Split& split, std::int32_t begin, CandidateStage& stage) {
  std::vector<CandidateSegment> parts;
  for (const CandidateSegment& segment : segments_of(stage)) {
    const auto keep = [&](std::int32_t from, std::int32_t to) {
      if (from < to) parts.push_back({to, segment.split});
    };
    keep(begin, std::min(segment.end, inside.begin));
    if (begin <= inside.begin && inside.begin < segment.end) parts.push_back({inside.end, split});
    keep(std::max(begin, inside.end), segment.end);
    begin = segment.end;
  }
  stage.segments = std::move(parts);
}

Scored fine_tune(SearchRun& run, const Scored& from) {
  const bool possible = run.space().mixed_splits || run.space().alternate_dimensions;
  if (!possible || !from.score.priced) return from;
  return FineTuning(run, from).tune();
}

}  // namespace trimtab::tuner
