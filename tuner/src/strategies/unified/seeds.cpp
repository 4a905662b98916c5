#include "strategies/unified/seeds.hpp"
#include "strategies/candidates.hpp"

#include <algorithm>
#include <cmath>

#include "strategies/aceso/balance.hpp"

namespace trimtab::tuner::unified {
namespace {

constexpr std::size_t kPriced = 600;  // even plans, the most promising first
constexpr std::size_t kArranged = 8;  // of the priced, where no solver follows
constexpr std::int32_t kMostStages = 1024;

struct Seed {
  std::int32_t microbatch, stages;
  Split split;
  double estimate;
};

// Ends of stages whose parts of `sums` are as equal as the allowed cuts make them; empty where cuts run out.
std::vector<std::int32_t> balanced_ends(std::span<const double> sums, const std::vector<std::int32_t>& cuts,
                                        std::int32_t stages, std::int32_t operators) {
  std::vector<std::int32_t> ends;
  std::size_t next = 0;
  for (std::int32_t s = 1; s < stages; ++s) {
    const double target = sums.back() * s / stages;
    const std::size_t last = cuts.size() - static_cast<std::size_t>(stages - s);
    while (next < last && std::abs(sums[cuts[next + 1]] - target) <= std::abs(sums[cuts[next]] - target)) ++next;
    ends.push_back(cuts[next++]);
  }
  ends.push_back(operators);
  return ends;
}

double estimate(std::span<const double> sums, const std::vector<std::int32_t>& ends, double microbatches) {
  double slowest = 0;
  double before = 0;
  for (const std::int32_t end : ends) {
    slowest = std::max(slowest, sums[end] - before);
    before = sums[end];
  }
  return slowest + (sums.back() - slowest) / microbatches;
}

class Seeds {
 public:
  explicit Seeds(SearchRun& run) : run_(run), space_(run.space()) {}

  void price() {
    list();
    std::stable_sort(seeds_.begin(), seeds_.end(),
                     [](const Seed& a, const Seed& b) { return a.estimate < b.estimate; });
    std::size_t priced = 0;
    for (const Seed& seed : seeds_) {
      // The rest would take longer even without all that computing leaves out.
      if (run_.stopped() || seed.estimate >= run_.shortlist().best_ms() || priced++ >= kPriced) return;
      Candidate candidate = candidate_of(seed);
      const Score score = run_.consider(candidate);
      keep_best(best_, {std::move(candidate), score}, kArranged);
    }
  }

  // The best of them with each stage's own split and cuts by what the stages then take.
  void arrange() {
    for (const Scored& even : std::vector<Scored>(best_)) {
      if (!run_.stopped()) keep_best(best_, arranged(run_, even), kArranged);
    }
  }

 private:
  void list() {
    const std::int32_t most =
        std::min({space_.stages_max, kMostStages, static_cast<std::int32_t>(space_.cuts.size()) + 1});
    for (std::int32_t stages = std::max(1, space_.stages_min); stages <= most; ++stages) {
      if (space_.devices % stages != 0 || run_.stopped() || !allows_even_devices(space_, stages)) continue;
      for (const std::int32_t microbatch : space_.microbatches) add(microbatch, stages);
    }
  }

  void add(std::int32_t microbatch, std::int32_t stages) {
    const double microbatches = run_.model().global_batch / microbatch;
    for (const Split& split : space_.splits(run_.model(), microbatch, space_.devices / stages)) {
      const std::span<const double> sums = run_.evaluator().computing_sums(microbatch, split);
      if (sums.empty()) continue;
      seeds_.push_back({microbatch, stages, split, estimate(sums, ends_of(sums, stages), microbatches)});
    }
  }

  [[nodiscard]] std::vector<std::int32_t> ends_of(std::span<const double> sums, std::int32_t stages) const {
    if (space_.knobs.uneven_stages) return balanced_ends(sums, space_.cuts, stages, space_.operators);
    return even_ends(run_, stages);
  }

  [[nodiscard]] Candidate candidate_of(const Seed& seed) {
    const std::span<const double> sums = run_.evaluator().computing_sums(seed.microbatch, seed.split);
    return uniform_candidate(seed.microbatch, ends_of(sums, seed.stages), space_.devices / seed.stages, seed.split);
  }

  SearchRun& run_;
  const PlanSpace& space_;
  std::vector<Seed> seeds_;
  std::vector<Scored> best_;  // of the priced, the best first
};

}  // namespace

void price_even_plans(SearchRun& run) {
  if (run.space().stages_max < run.space().stages_min) return;
  Seeds seeds(run);
  seeds.price();
  if (run.space().devices > kMostDevices) seeds.arrange();
}

}  // namespace trimtab::tuner::unified
