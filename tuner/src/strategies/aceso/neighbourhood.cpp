#include "strategies/aceso/neighbourhood.hpp"

#include <array>
#include <numeric>
#include <utility>

#include "strategies/aceso/balance.hpp"
#include "strategies/aceso/operator_moves.hpp"
#include "strategies/aceso/split_moves.hpp"

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

  // Stage s gives to stage s + 1, or takes from it where `by` is negative.
  bool shift(std::size_t s, std::int32_t by, Candidate& candidate) {
    const auto stage = static_cast<std::int32_t>(s);
    return by > 0 ? shift_operators(run_.space(), stage, stage + 1, by, candidate)
                  : shift_operators(run_.space(), stage + 1, stage, -by, candidate);
  }

  void cuts(const Candidate& from) {
    if (!run_.space().knobs.uneven_stages) return;
    for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
      for (std::int32_t by = -reach_.shift; by <= reach_.shift; ++by) {
        Candidate candidate = from;
        if (by != 0 && shift(s, by, candidate)) attempt(candidate);
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
          const bool shifted = (shift(s, first, candidate) && shift(t, second, candidate));
          if (shifted) {
            attempt(candidate);
            continue;
          }
          candidate = from;
          if (shift(t, second, candidate) && shift(s, first, candidate)) attempt(candidate);
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
        if (shift(s, by, shifted)) attempt(shifted);
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

}  // namespace

Scored descend(SearchRun& run, Scored from, const Reach& reach) {
  return Descent(run, std::move(from), reach).run();
}

}  // namespace trimtab::tuner
