#include "neighbourhood.hpp"

#include <utility>

namespace trimtab::tuner {
namespace {

class Descent {
 public:
  Descent(SearchRun& run, Scored from, const Reach& reach) : run_(run), best_(std::move(from)), reach_(reach) {}

  Scored run() {
    bool improved = true;
    while (improved && !run_.stopped()) {
      const Candidate from = best_.candidate;
      cuts(from);
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

  void devices(const Candidate& from) {
    for (std::size_t giver = 0; giver < from.stages.size(); ++giver) {
      for (std::size_t taker = 0; taker < from.stages.size(); ++taker) {
        for (std::int32_t amount = 1; giver != taker && amount < from.stages[giver].devices; ++amount) {
          Candidate candidate = from;
          candidate.stages[giver].devices -= amount;
          candidate.stages[taker].devices += amount;
          if (!allowed(run_.space(), run_.model(), candidate)) continue;
          attempt(candidate);
          for (std::size_t s = 0; s + 1 < from.stages.size() && run_.space().knobs.uneven_stages; ++s) {
            for (const std::int32_t by : {-2, -1, 1, 2}) {
              Candidate shifted = candidate;
              if (shift(s, by, shifted)) attempt(shifted);
            }
          }
        }
      }
    }
  }

  void microbatches(const Candidate& from) {
    for (const std::int32_t microbatch : run_.space().microbatches) {
      Candidate candidate = from;
      candidate.microbatch = microbatch;
      if (microbatch != from.microbatch && allowed(run_.space(), run_.model(), candidate)) attempt(candidate);
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
