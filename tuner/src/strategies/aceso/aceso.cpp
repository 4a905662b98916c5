// Iterative bottleneck alleviation (Aceso, EuroSys 2024): one search for each count of stages with a fair share of the
// budget, then op-level fine-tuning, a polish that prices every near relative of the best, and balanced cuts for device
// splits that could still be better.

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "plan/candidate.hpp"
#include "strategies/aceso/balance.hpp"
#include "strategies/aceso/polish.hpp"
#include "strategies/aceso/recutting.hpp"
#include "strategies/aceso/stage_count_search.hpp"
#include "strategies/candidates.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kSplits = 30000;         // device splits that are balanced, over all stages and microbatches
constexpr std::size_t kArrangedSplits = 2000;  // the same where splits are chosen, too
constexpr std::size_t kBalancedSeeds = 256;    // balanced candidates that are descended from, the most promising first
constexpr std::size_t kSeedsOfCount = 12;      // of one count of stages, where splits are chosen, too
constexpr double kPromising = 1.25;            // of the best time: a balanced candidate slower than that is left alone
constexpr double kPromisingMixed = 2;          // the same where single operators may still change it a lot
constexpr std::size_t kPolished = 4;
constexpr std::size_t kWidelyPolished = 24;  // where stages may be split in several ways
constexpr std::size_t kPolishedOfCount = 3;  // of one count of stages, there
constexpr int kPolishRounds = 6;
constexpr std::uint64_t kMixedPolish = 20000;  // evaluations that polish may go on with where splits are mixed
constexpr std::size_t kFound = 512;
constexpr std::uint64_t kSlice = 3000;  // evaluations of one count of stages before the next one's turn
constexpr std::uint64_t kSmallestSlice = 50;
constexpr double kAlleviationShare = 0.7;  // of an evaluation budget; the rest is for polish

class Aceso {
 public:
  explicit Aceso(SearchRun& run) : run_(run), recutting_(run) {}

  StrategyEnd search(const std::optional<Candidate>& start) {
    alleviate(start);
    polish();
    balanced_seeds();
    around_refused();
    polish();
    polish_recompute(run_);
    return {"converged", false};
  }

 private:
  // Even cuts and devices, with the microbatch and the kind of split that suit them best.
  [[nodiscard]] std::optional<Scored> even_start(std::int32_t stages) {
    const std::vector<std::int32_t> ends = even_ends(run_, stages);
    std::optional<Scored> best;
    for (const std::int32_t microbatch : run_.space().microbatches) {
      const std::vector<std::int32_t> devices = run_.space().even_split(run_.model(), microbatch, stages);
      if (devices.empty()) continue;
      for (const bool most_replicas : {true, false}) {
        if (!most_replicas && run_.space().tensor_parallel.size() < 2) continue;
        Candidate candidate = shaped(microbatch, devices, most_replicas);
        for (std::size_t s = 0; s < devices.size(); ++s) candidate.stages[s].end = ends[s];
        const Score score = run_.consider(candidate);
        if (!best || score.better_than(best->score)) best = Scored{std::move(candidate), score};
      }
    }
    return best;
  }

  // Without cuts.
  [[nodiscard]] Candidate shaped(std::int32_t microbatch, const std::vector<std::int32_t>& devices,
                                 bool most_replicas) const {
    Candidate candidate;
    candidate.microbatch = microbatch;
    for (const std::int32_t count : devices) {
      const std::vector<Split> splits = run_.space().splits(run_.model(), microbatch, count);
      Split chosen = splits.front();
      for (const Split& split : splits) {
        if (!most_replicas && split.sharded == ShardedLevel::kNone) chosen = split;
      }
      candidate.stages.push_back(stage_of(0, count, chosen));
    }
    return candidate;
  }

  [[nodiscard]] std::optional<Scored> start_of(std::int32_t stages, const std::optional<Candidate>& start) {
    if (!start || static_cast<std::int32_t>(start->stages.size()) != stages) return even_start(stages);
    return Scored{*start, run_.consider(*start)};
  }

  // Rounds of slices over all counts of stages; those that fall behind are abandoned.
  void alleviate(const std::optional<Candidate>& start) {
    std::vector<std::unique_ptr<StageCountSearch>> searches;
    for (std::int32_t stages = run_.space().stages_min; stages <= run_.space().stages_max; ++stages) {
      if (run_.stopped()) break;
      std::optional<Scored> seed = start_of(stages, start);
      if (!seed) continue;
      const std::uint64_t number = run_.options().seed * 1000003 + static_cast<std::uint64_t>(stages);
      searches.push_back(std::make_unique<StageCountSearch>(run_, std::move(*seed), number));
    }
    const auto budget = static_cast<double>(run_.options().max_evaluations);
    const auto share =
        static_cast<std::uint64_t>(budget * kAlleviationShare / static_cast<double>(1 + searches.size()));
    const std::uint64_t slice = budget > 0 ? std::clamp(share / 4, kSmallestSlice, kSlice) : kSlice;
    for (bool going = true; going && !run_.stopped();) {
      going = false;
      for (const auto& search : searches) {
        if (search->over() || (share > 0 && search->evaluations() >= share)) continue;
        search->advance(slice);
        search->abandon_unless_promising(run_.shortlist().best_ms());
        going = going || !search->over();
      }
    }
    for (const auto& search : searches) keep_best(found_, search->best(), kFound);
  }

  [[nodiscard]] bool chooses_splits() const {
    return run_.space().tensor_parallel.size() > 1 || run_.space().sharded.size() > 1;
  }

  // Cuts, devices and splits of whole stages, then of single operators, until neither finds more.
  [[nodiscard]] Scored polished(Scored best) {
    // Before the descent leaves for another microbatch.
    if (run_.space().mixed_splits) best = fine_tune(run_, best);
    for (int round = 0; round < kPolishRounds && !run_.stopped(); ++round) {
      best = descend(run_, recutting_.recut(best), Reach{});
      Scored tuned = recutting_.recut(fine_tune(run_, best));
      if (!tuned.score.better_than(best.score)) break;
      best = std::move(tuned);
    }
    return best;
  }

  void polish() {
    const std::size_t most = chooses_splits() ? kWidelyPolished : kPolished;
    std::vector<Scored> all;
    std::size_t taken = 0;
    std::map<std::size_t, std::size_t> taken_of;  // by count of stages
    const std::uint64_t begin = run_.evaluator().evaluations();
    for (std::size_t i = 0; i < found_.size() && !run_.stopped(); ++i) {
      const bool cheap = run_.space().mixed_splits && run_.evaluator().evaluations() - begin < kMixedPolish;
      if (taken >= most && !cheap) break;
      const std::size_t stages = found_[i].candidate.stages.size();
      if (chooses_splits() && !cheap && taken_of[stages] >= kPolishedOfCount) continue;
      if (!first_time(found_[i])) continue;
      ++taken;
      ++taken_of[stages];
      Scored better = polished(found_[i]);
      first_time(better);
      record(found_[i], better, "every near relative");
      keep_best(all, std::move(better), kFound);
    }
    for (Scored& scored : all) keep_best(found_, std::move(scored), kFound);
  }

  bool first_time(const Scored& scored) {
    return polished_.insert(semantic_hash_of(run_.model(), scored.candidate)).second;
  }

  // An excluded plan is not an answer, but its relatives may be.
  void around_refused() {
    for (const Candidate& refused : std::vector<Candidate>(run_.refused())) {
      keep_best(found_, descend(run_, {refused, Score{}}, Reach{}), kFound);
    }
  }

  // Balanced cuts of every device split whose busiest stage alone does not already take longer than the best plan.
  void balanced_seeds() {
    if (run_.space().stages_max < run_.space().stages_min) return;
    std::vector<Scored> seeds;
    const auto counts = static_cast<std::size_t>(run_.space().stages_max - run_.space().stages_min + 1);
    const std::size_t each =
        (chooses_splits() ? kArrangedSplits : kSplits) / (1 + counts * run_.space().microbatches.size());
    for (std::int32_t stages = run_.space().stages_min; stages <= run_.space().stages_max; ++stages) {
      for (const std::int32_t microbatch : run_.space().microbatches) {
        std::vector<std::vector<std::int32_t>> splits =
            run_.space().device_splits(run_.model(), microbatch, stages, each);
        splits.push_back(run_.space().even_split(run_.model(), microbatch, stages));
        for (const auto& split : splits) {
          if (run_.stopped()) return;
          if (!split.empty()) balanced_seed(shaped(microbatch, split, true), seeds);
        }
      }
    }
    const double limit = (run_.space().mixed_splits ? kPromisingMixed : kPromising) * run_.shortlist().best_ms();
    std::map<std::size_t, std::size_t> taken_of;  // by count of stages
    for (const Scored& seed : seeds) {
      if (seed.score.fits() && seed.score.ms > limit) continue;
      if (chooses_splits() && ++taken_of[seed.candidate.stages.size()] > kSeedsOfCount) continue;
      Scored better = chooses_splits() ? recutting_.recut(filled(run_, seed)) : seed;
      if (better.score.fits() && better.score.ms > limit) continue;
      better = descend(run_, std::move(better), {2, true, false, false});
      record(seed, better, "balanced cuts");
      keep_best(found_, std::move(better), kFound);
    }
  }

  void balanced_seed(Candidate shape, std::vector<Scored>& seeds) {
    const std::optional<Balanced> balanced = balance(run_.evaluator(), std::move(shape));
    // Other splits than these may take less.
    const double most = (run_.space().mixed_splits ? kPromisingMixed : 1) * run_.shortlist().best_ms();
    if (!balanced || balanced->busiest_ms >= most) return;
    Scored seed{balanced->candidate, run_.consider(balanced->candidate)};
    if (chooses_splits()) seed = arranged(run_, seed);
    keep_best(seeds, std::move(seed), kBalancedSeeds);
  }

  void record(const Scored& from, const Scored& to, const char* what) {
    if (!to.score.better_than(from.score) || !from.score.priced) return;
    const Load load = load_of(run_.evaluator(), from.candidate);
    run_.step(step_of(run_, to.candidate.stages.size(), bottleneck_text(load, load.ranking.front()), what, from.score,
                      to.score));
  }

  SearchRun& run_;
  Recutting recutting_;
  std::vector<Scored> found_;  // the best of each count of stages and of each seed, the best first
  std::unordered_set<std::uint64_t> polished_;
};

}  // namespace

StrategyEnd run_aceso(SearchRun& run, const std::optional<Candidate>& start) {
  return Aceso(run).search(start);
}

}  // namespace trimtab::tuner
