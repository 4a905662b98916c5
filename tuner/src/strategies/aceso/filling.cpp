#include "strategies/aceso/filling.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab::tuner {
namespace {

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
    const double microbatches = evaluator_.model().global_batch / candidate_.microbatch;
    const double each = price.forward + price.backward + price.recompute + price.communication;
    fits_ = price.excess_bytes <= 0;
    return microbatches * each + price.sync + price.optimizer;
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

bool is_plain(const CandidateStage& stage) {
  return stage.segments.empty() && stage.alternate.empty() && !stage.recompute;
}

}  // namespace

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
