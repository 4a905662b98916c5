// Iterative bottleneck alleviation (Aceso, EuroSys 2024): one search for each count of stages from an even split, then
// a polish that prices every near relative of the best, and balanced cuts for device splits that could still be better.

#include <algorithm>
#include <numeric>

#include "alleviation.hpp"
#include "balance.hpp"
#include "base/random.hpp"
#include "neighbourhood.hpp"
#include "recompute_polish.hpp"
#include "strategy.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kSplits = 30000;       // device splits that are balanced, over all stages and microbatches
constexpr std::size_t kBalancedSeeds = 256;  // balanced candidates that are descended from, the most promising first
constexpr double kPromising = 1.25;          // of the best time: a balanced candidate slower than that is left alone
constexpr std::size_t kPolished = 4;
constexpr int kPerturbations = 2;

void keep_best(std::vector<Scored>& all, Scored candidate) {
  if (!candidate.score.priced) return;
  const auto place = std::upper_bound(all.begin(), all.end(), candidate,
                                      [](const Scored& a, const Scored& b) { return a.score.better_than(b.score); });
  all.insert(place, std::move(candidate));
}

class Aceso {
 public:
  explicit Aceso(SearchRun& run) : run_(run), random_(run.options().seed) {}

  StrategyEnd search(const std::optional<Candidate>& start) {
    for (std::int32_t stages = run_.space().stages_min; stages <= run_.space().stages_max; ++stages) {
      if (run_.stopped()) break;
      search_stage_count(stages, start);
    }
    polish();
    balanced_seeds();
    around_refused();
    polish();
    polish_recompute(run_);
    return {"converged", false};
  }

 private:
  // The even split with the microbatch that suits it best.
  [[nodiscard]] std::optional<Scored> even_start(std::int32_t stages) {
    std::vector<std::int32_t> ends = even_cuts(run_.model(), stages);
    ends.push_back(run_.space().operators);
    std::optional<Scored> best;
    for (const std::int32_t microbatch : run_.space().microbatches) {
      const std::vector<std::int32_t> devices = run_.space().even_split(run_.model(), microbatch, stages);
      if (devices.empty()) continue;
      Candidate candidate;
      candidate.microbatch = microbatch;
      for (std::size_t s = 0; s < devices.size(); ++s) candidate.stages.push_back({ends[s], devices[s], 0});
      const Score score = run_.consider(candidate);
      if (!best || score.better_than(best->score)) best = Scored{candidate, score};
    }
    return best;
  }

  void search_stage_count(std::int32_t stages, const std::optional<Candidate>& start) {
    std::optional<Scored> seed = even_start(stages);
    if (start && static_cast<std::int32_t>(start->stages.size()) == stages) {
      const Score score = run_.consider(*start);
      if (!seed || score.better_than(seed->score)) seed = Scored{*start, score};
    }
    if (!seed) return;
    Alleviation alleviation(run_);
    Scored best = alleviation.search(seed->candidate);
    for (int i = 0; i < kPerturbations && !run_.stopped(); ++i) {
      Scored other = alleviation.search(perturbed(best.candidate));
      if (other.score.better_than(best.score)) best = std::move(other);
    }
    keep_best(found_, std::move(best));
  }

  // Some cuts moved at random: another basin.
  Candidate perturbed(const Candidate& from) {
    Candidate candidate = from;
    if (!run_.space().knobs.uneven_stages) return candidate;
    for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
      Candidate moved = candidate;
      const auto stage = static_cast<std::int32_t>(s);
      const auto by = static_cast<std::int32_t>(random_.between(-3, 3));
      const bool possible = by > 0   ? shift_operators(run_.space(), stage, stage + 1, by, moved)
                            : by < 0 ? shift_operators(run_.space(), stage + 1, stage, -by, moved)
                                     : false;
      if (possible) candidate = moved;
    }
    return candidate;
  }

  void polish() {
    std::vector<Scored> polished;
    for (std::size_t i = 0; i < std::min(kPolished, found_.size()); ++i) {
      keep_best(polished, descend(run_, found_[i], Reach{}));
    }
    for (Scored& scored : polished) keep_best(found_, std::move(scored));
  }

  // An excluded plan is not an answer, but its relatives may be.
  void around_refused() {
    for (const Candidate& refused : std::vector<Candidate>(run_.refused())) {
      keep_best(found_, descend(run_, {refused, Score{}}, Reach{}));
    }
  }

  // Balanced cuts of every device split whose busiest stage alone does not already take longer than the best plan.
  void balanced_seeds() {
    if (run_.space().stages_max < run_.space().stages_min) return;
    std::vector<Scored> seeds;
    const auto counts = static_cast<std::size_t>(run_.space().stages_max - run_.space().stages_min + 1);
    const std::size_t each = kSplits / (1 + counts * run_.space().microbatches.size());
    for (std::int32_t stages = run_.space().stages_min; stages <= run_.space().stages_max; ++stages) {
      for (const std::int32_t microbatch : run_.space().microbatches) {
        if (run_.stopped()) return;
        for (const auto& split : run_.space().device_splits(run_.model(), microbatch, stages, each)) {
          const std::optional<Balanced> balanced =
              balance(run_.evaluator().tables(), run_.evaluator().calibration(), run_.space(), microbatch, split);
          if (!balanced || balanced->busiest_ms >= run_.shortlist().best_ms()) continue;
          keep_best(seeds, {balanced->candidate, run_.consider(balanced->candidate)});
        }
      }
    }
    if (seeds.size() > kBalancedSeeds) seeds.resize(kBalancedSeeds);
    const double limit = kPromising * run_.shortlist().best_ms();
    for (const Scored& seed : seeds) {
      if (seed.score.fits() && seed.score.ms > limit) continue;
      keep_best(found_, descend(run_, seed, {2, true, false, false}));
    }
  }

  SearchRun& run_;
  Random random_;
  std::vector<Scored> found_;  // the best of each count of stages and of each seed, the best first
};

}  // namespace

StrategyEnd run_aceso(SearchRun& run, const std::optional<Candidate>& start) {
  return Aceso(run).search(start);
}

}  // namespace trimtab::tuner
