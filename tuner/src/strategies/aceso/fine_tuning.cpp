#include "strategies/aceso/fine_tuning.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/canonical.hpp"

namespace trimtab::tuner {
namespace {

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

bool has(const std::vector<Range>& ranges, std::int32_t op) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [op](const Range& range) { return range.begin <= op && op < range.end; });
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
    run_.step(step_of(s, primitive, best_.score, score));
    best_ = {std::move(candidate), score};
    return true;
  }

  [[nodiscard]] SearchStep step_of(std::size_t s, const char* primitive, const Score& before,
                                   const Score& after) const {
    SearchStep step;
    step.evaluations = run_.evaluator().evaluations();
    step.stages = static_cast<std::int32_t>(best_.candidate.stages.size());
    step.bottleneck = "operators of stage " + std::to_string(s);
    step.primitive = primitive;
    step.before_ms = before.ms;
    step.after_ms = after.ms;
    step.before_excess_bytes = before.excess_bytes;
    step.after_excess_bytes = after.excess_bytes;
    return step;
  }

  // A split, and for tensor parallelism whether along the second dimension.
  struct Way {
    Split split;
    bool alternate = false;
  };

  [[nodiscard]] std::vector<Way> ways(std::size_t s) const {
    std::vector<Way> ways;
    const Candidate& from = best_.candidate;
    for (const Split& split : run_.space().splits(run_.model(), from.microbatch, from.stages[s].devices)) {
      ways.push_back({split, false});
      if (split.tp > 1 && run_.space().alternate_dimensions) ways.push_back({split, true});
    }
    return ways;
  }

  static void put(const Range& range, const Way& way, std::int32_t begin, CandidateStage& stage) {
    put_split(range, way.split, begin, stage);
    std::vector<Range> alternate;
    for (const Range& kept : stage.alternate) {
      if (kept.begin < range.begin) alternate.push_back({kept.begin, std::min(kept.end, range.begin)});
      if (kept.end > range.end) alternate.push_back({std::max(kept.begin, range.end), kept.end});
    }
    if (way.alternate) alternate.push_back(range);
    stage.alternate = normalized(std::move(alternate));
  }

  bool mix_splits(std::size_t s) {
    const Range inside = operators_of(s);
    bool improved = false;
    for (const Way& way : ways(s)) {
      for (const Range& range : ranges_in(inside)) {
        if (run_.stopped()) return improved;
        Candidate candidate = best_.candidate;
        put(range, way, inside.begin, candidate.stages[s]);
        improved = attempt(std::move(candidate), "tp and dp of some operators", s) || improved;
      }
    }
    return improved;
  }

  // Two operators at once, where one alone only adds a layout change.
  void mix_pairs(std::size_t s) {
    const Range inside = operators_of(s);
    if (inside.size() > kEveryPair) return;
    const std::vector<Way> all = ways(s);
    for (std::int32_t i = inside.begin; i < inside.end; ++i) {
      for (std::int32_t j = i + 1; j < inside.end; ++j) {
        for (const Way& first : all) mix_pair(s, i, first, j, all);
      }
    }
  }

  void mix_pair(std::size_t s, std::int32_t i, const Way& first, std::int32_t j, const std::vector<Way>& all) {
    const std::int32_t begin = best_.candidate.begin_of(s);
    for (const Way& second : all) {
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
      if (has(alternate, op) != flips) flipped.push_back({op, op + 1});
    }
    alternate = normalized(std::move(flipped));
    attempt(std::move(candidate), "sharding dimension of some operators", s);
  }

  SearchRun& run_;
  Scored best_;
};

}  // namespace

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
