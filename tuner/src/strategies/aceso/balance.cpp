#include "strategies/aceso/balance.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "strategies/aceso/split_moves.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Partition {
 public:
  Partition(Evaluator& evaluator, const Candidate& shape, std::span<const double> weights) : weights_(weights) {
    for (const CandidateStage& stage : shape.stages) {
      sums_.push_back(evaluator.computing_sums(shape.microbatch, stage.split));
    }
    bounds_.push_back(0);
    bounds_.insert(bounds_.end(), evaluator.space().cuts.begin(), evaluator.space().cuts.end());
    bounds_.push_back(evaluator.space().operators);
  }

  [[nodiscard]] bool possible() const {
    const bool priced = std::none_of(sums_.begin(), sums_.end(), [](const auto& sums) { return sums.empty(); });
    return priced && bounds_.size() > sums_.size();
  }

  // Dynamic program over (stages placed, bound reached): the least possible busiest stage. The time of a stage grows
  // with its operators, so the best previous bound moves only forward, and a stage ends between what the stages up to
  // it can take within a reachable time and what those behind it must leave.
  [[nodiscard]] std::vector<std::int32_t> solve(double& busiest) const {
    const std::size_t stages = sums_.size();
    const std::size_t bounds = bounds_.size();
    const std::vector<Window> windows = reachable();
    std::vector<double> before{0.0};
    std::vector<double> here;
    std::vector<std::vector<std::size_t>> from(stages + 1);
    for (std::size_t s = 1; s <= stages; ++s) {
      const auto [first, last] = windows[s];
      const Window& behind = windows[s - 1];
      here.assign(last - first + 1, kInfinity);
      from[s].assign(here.size(), 0);
      std::size_t previous = behind.first;
      for (std::size_t b = std::max(first, behind.first + 1); b <= last; ++b) {
        const auto value = [&](std::size_t p) { return std::max(before[p - behind.first], time(s - 1, p, b)); };
        while (previous + 1 < b && previous < behind.last && value(previous + 1) <= value(previous)) ++previous;
        here[b - first] = value(previous);
        from[s][b - first] = previous;
      }
      before.swap(here);
    }
    busiest = before.back();
    std::vector<std::int32_t> ends(stages);
    std::size_t b = bounds - 1;
    for (std::size_t s = stages; s > 0; --s) {
      ends[s - 1] = bounds_[b];
      b = from[s][b - windows[s].first];
    }
    return ends;
  }

 private:
  [[nodiscard]] double time(std::size_t stage, std::size_t from, std::size_t to) const {
    const double computing = sums_[stage][bounds_[to]] - sums_[stage][bounds_[from]];
    return weights_.empty() ? computing : computing * weights_[stage];
  }

  struct Window {
    std::size_t first = 0, last = 0;  // bounds
  };

  // Where each count of stages may end when none takes longer than a time that can be met.
  [[nodiscard]] std::vector<Window> reachable() const {
    double shares = 0;
    for (std::size_t s = 0; s < sums_.size(); ++s) shares += 1 / time(s, 0, bounds_.size() - 1);
    std::vector<Window> windows(sums_.size() + 1);
    for (const double goal : {1.03 / shares, 1.1 / shares, 1.3 / shares, 2 / shares, 4 / shares, kInfinity}) {
      if (open(goal, windows)) break;
    }
    return windows;
  }

  // False where the goal cannot be met.
  [[nodiscard]] bool open(double goal, std::vector<Window>& windows) const {
    const std::size_t stages = sums_.size();
    const std::size_t end = bounds_.size() - 1;
    windows.front() = {0, 0};
    for (std::size_t s = 0; s < stages; ++s) {
      windows[s + 1].last = furthest(s, windows[s].last, end - (stages - 1 - s), goal);
      if (windows[s + 1].last == windows[s].last) return false;
    }
    if (windows.back().last != end) return false;
    windows.back().first = end;
    for (std::size_t s = stages; s > 1; --s) {
      windows[s - 1].first = nearest(s - 1, windows[s].first, s - 1, goal);
      if (windows[s - 1].first > windows[s - 1].last) return false;
    }
    return true;
  }

  // The last bound up to `most` that the stage may end at within the goal, or `from`.
  [[nodiscard]] std::size_t furthest(std::size_t stage, std::size_t from, std::size_t most, double goal) const {
    std::size_t low = from;
    for (std::size_t high = most + 1; high > low + 1;) {
      const std::size_t middle = low + (high - low) / 2;
      (time(stage, from, middle) <= goal ? low : high) = middle;
    }
    return low;
  }

  // The first bound from `least` on that the stage may begin at within the goal, or `to`.
  [[nodiscard]] std::size_t nearest(std::size_t stage, std::size_t to, std::size_t least, double goal) const {
    std::size_t high = to;
    for (std::size_t low = least; low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (time(stage, middle, to) <= goal) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  std::span<const double> weights_;            // by stage; empty = 1
  std::vector<std::span<const double>> sums_;  // by stage
  std::vector<std::int32_t> bounds_;           // where stages may begin and end
};

constexpr int kRounds = 4;

bool is_mixed(const CandidateStage& stage) {
  return !stage.segments.empty();
}

// What a stage takes for one unit of computing; more where it is over its memory.
std::vector<double> weights_of(Evaluator& evaluator, const Candidate& candidate) {
  std::vector<double> weights;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const auto sums = evaluator.computing_sums(candidate.microbatch, candidate.stages[s].split);
    const StagePrice& price = evaluator.stage(candidate, s);
    if (sums.empty() || !price.priced) return {};
    const double computing = sums[candidate.stages[s].end] - sums[candidate.begin_of(s)];
    const double over = price.excess_bytes > 0 ? price.memory_bytes / price.limit_bytes : 1;
    weights.push_back(computing > 0 ? over * price.step_ms / computing : 1);
  }
  return weights;
}

constexpr int kArrangements = 3;

Candidate with_best_splits(SearchRun& run, Candidate candidate) {
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const CandidateStage& stage = candidate.stages[s];
    const std::vector<CandidateStage> options =
        resized(run.space(), run.model(), candidate.microbatch, stage, stage.devices);
    if (!options.empty()) choose_best(run.evaluator(), static_cast<std::int32_t>(s), options, candidate);
  }
  return candidate;
}

constexpr int kGoals = 18;
constexpr double kLoosest = 2;  // times the slowest stage of the start

class Filling {
 public:
  Filling(SearchRun& run, const Candidate& shape)
      : evaluator_(run.evaluator()), cuts_(run.space().cuts), operators_(run.space().operators), candidate_(shape) {}

  [[nodiscard]] double slowest() {
    double most = 0;
    for (std::size_t s = 0; s < candidate_.stages.size(); ++s) most = std::max(most, own_ms(s));
    return most;
  }

  // Whether every stage can meet the goal; the cuts are then in candidate().
  bool fill(double goal_ms) {
    const std::size_t stages = candidate_.stages.size();
    std::size_t next = 0;  // first cut that is not used yet
    for (std::size_t s = 0; s + 1 < stages; ++s) {
      const std::size_t left = stages - 2 - s;
      if (next + left >= cuts_.size()) return false;
      const std::size_t last = cuts_.size() - left;  // one past the last cut that leaves enough for the others
      if (!meets(s, cuts_[next], goal_ms)) return false;
      std::size_t low = next;
      for (std::size_t high = last; high - low > 1;) {
        const std::size_t middle = (low + high) / 2;
        (meets(s, cuts_[middle], goal_ms) ? low : high) = middle;
      }
      candidate_.stages[s].end = cuts_[low];
      next = low + 1;
    }
    return meets(stages - 1, operators_, goal_ms);
  }

  [[nodiscard]] const Candidate& candidate() const { return candidate_; }

 private:
  // What the stage takes by itself over a step.
  double own_ms(std::size_t s) {
    const StagePrice& price = evaluator_.stage(candidate_, s);
    if (!price.priced) return std::numeric_limits<double>::infinity();
    fits_ = price.excess_bytes <= 0;
    return tuner::own_ms(price, evaluator_.model().global_batch / candidate_.microbatch);
  }

  bool meets(std::size_t s, std::int32_t end, double goal_ms) {
    candidate_.stages[s].end = end;
    // The stages behind begin somewhere behind: they are not looked at.
    const bool in_time = own_ms(s) <= goal_ms;
    return in_time && fits_;
  }

  Evaluator& evaluator_;
  const std::vector<std::int32_t>& cuts_;
  std::int32_t operators_;
  Candidate candidate_;
  bool fits_ = false;
};

}  // namespace

std::optional<Balanced> balance(Evaluator& evaluator, Candidate shape, std::span<const double> weights) {
  if (std::any_of(shape.stages.begin(), shape.stages.end(), is_mixed)) return std::nullopt;
  const Partition partition(evaluator, shape, weights);
  if (!partition.possible()) return std::nullopt;
  Balanced balanced;
  balanced.candidate = std::move(shape);
  std::vector<CandidateStage>& stages = balanced.candidate.stages;
  std::vector<std::int32_t> ends;
  if (evaluator.space().knobs.uneven_stages) {
    ends = partition.solve(balanced.busiest_ms);
  } else {
    ends = even_cuts(evaluator.model(), static_cast<std::int32_t>(stages.size()));
    ends.push_back(evaluator.space().operators);
  }
  for (std::size_t s = 0; s < stages.size(); ++s) stages[s].end = ends[s];
  for (std::size_t s = 0; s < stages.size(); ++s) fit_to_range(balanced.candidate.begin_of(s), stages[s]);
  return balanced;
}

Scored rebalanced(SearchRun& run, const Scored& from) {
  Scored best = from;
  if (!run.space().knobs.uneven_stages || from.candidate.stages.size() < 2 || !from.score.priced) return best;
  Candidate last = from.candidate;
  for (int round = 0; round < kRounds && !run.stopped(); ++round) {
    const std::vector<double> weights = weights_of(run.evaluator(), last);
    if (weights.empty()) return best;
    std::optional<Balanced> next = balance(run.evaluator(), last, weights);
    if (!next || next->candidate == last) return best;
    last = std::move(next->candidate);
    const Score score = run.consider(last);
    if (score.better_than(best.score)) best = {last, score};
  }
  return best;
}

Scored arranged(SearchRun& run, const Scored& from) {
  Scored best = from;
  Scored last = from;
  for (int round = 0; round < kArrangements && !run.stopped(); ++round) {
    Candidate candidate = with_best_splits(run, last.candidate);
    if (round > 0 && candidate == last.candidate) break;
    const Score score = run.consider(candidate);
    last = rebalanced(run, {std::move(candidate), score});
    if (last.score.better_than(best.score)) best = last;
  }
  return best;
}

Scored filled(SearchRun& run, const Scored& from) {
  const std::vector<CandidateStage>& stages = from.candidate.stages;
  const bool possible = run.space().knobs.uneven_stages && from.score.priced && stages.size() > 1 &&
                        std::all_of(stages.begin(), stages.end(), is_plain);
  if (!possible) return from;
  Filling filling(run, from.candidate);
  double high = kLoosest * filling.slowest();
  double low = 0;
  Scored best = from;
  for (int goal = 0; goal < kGoals && !run.stopped(); ++goal) {
    const double middle = (low + high) / 2;
    if (!filling.fill(middle)) {
      low = middle;
      continue;
    }
    high = middle;
    const Score score = run.consider(filling.candidate());
    if (score.better_than(best.score)) best = {filling.candidate(), score};
  }
  return best;
}

}  // namespace trimtab::tuner
