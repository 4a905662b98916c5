#pragma once

// All cuts at once, for devices that are given: an exact program over cuts near those of a candidate, each stage at
// what the model says it takes there (relayed operator moves, Aceso, section 4.3). Where the model has an exact pricer
// of stages, splits and recompute inside of each stage are chosen anew with every cut (op-level fine-tuning, section
// 4.2); elsewhere stages keep their splits.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {

class Recutting {
 public:
  // Must outlive this.
  explicit Recutting(SearchRun& run) : run_(run) {}

  // The best of some rounds; the given one where nothing is better.
  [[nodiscard]] Scored recut(const Scored& from) {
    Scored best = from;
    if (!possible(from)) return best;
    for (int round = 0; round < kRounds && !run_.stopped(); ++round) {
      const Candidate center = best.candidate;
      open_windows(center);
      price_stages(center);
      const double least = least_slowest();
      if (least == kInfinite) break;
      for (const double limit : kLimits) {
        if (run_.stopped() || !solve(limit * least)) break;
        const Candidate candidate = with_cuts(center);
        const Score score = run_.consider(candidate);
        if (score.better_than(best.score)) best = {candidate, score};
      }
      if (best.candidate == center) break;
    }
    return best;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr std::int32_t kReach = 6;        // positions that a cut moves by in a round
  static constexpr std::int32_t kReachPriced = 8;  // the same where an exact pricer answers for many ends at once
  static constexpr int kRounds = 12;
  // Slowest stages allowed, as multiples of the least: a little more on one stage may take much from all others.
  static constexpr std::array kLimits{1.0, 1.001, 1.003, 1.01, 1.02, 1.05, 1.1};

  static double own_ms_if_fits(Evaluator& evaluator, const Candidate& candidate, std::size_t s) {
    const StagePrice& price = evaluator.stage(candidate, s);
    if (!price.priced || price.excess_bytes > 0) return kInfinite;
    return own_ms(price, evaluator.model().global_batch / candidate.microbatch);
  }

  // Where a stage may end, by index into the space's cuts: one value, behind all cuts, for the last stage.
  struct Window {
    std::int32_t first = 0, count = 1;
  };

  [[nodiscard]] bool possible(const Scored& from) {
    if (!run_.space().knobs.uneven_stages || !from.score.priced) return false;
    choose_pricer(from.candidate.microbatch);
    if (pricer_ != nullptr) {
      return std::all_of(from.candidate.stages.begin(), from.candidate.stages.end(),
                         [this](const CandidateStage& stage) { return pricer_->allows(stage.devices); });
    }
    return from.candidate.stages.size() > 1 &&
           std::all_of(from.candidate.stages.begin(), from.candidate.stages.end(), is_plain);
  }
  // Finds the pricer of the microbatch; none where it only estimates.
  void choose_pricer(std::int32_t microbatch) {
    const auto [place, added] = pricers_.try_emplace(microbatch);
    StagePricers* const pricers = run_.evaluator().stage_pricers();
    if (added && pricers != nullptr) place->second = pricers->stage_pricer(microbatch);
    pricer_ = place->second.get();
    if (pricer_ != nullptr && pricer_->estimates()) pricer_ = nullptr;
  }
  void open_windows(const Candidate& center) {
    const std::vector<std::int32_t>& cuts = run_.space().cuts;
    const auto all = static_cast<std::int32_t>(cuts.size());
    const std::int32_t reach = pricer_ != nullptr ? kReachPriced : kReach;
    windows_.assign(center.stages.size(), {});
    for (std::size_t s = 0; s + 1 < center.stages.size(); ++s) {
      const auto at =
          static_cast<std::int32_t>(std::lower_bound(cuts.begin(), cuts.end(), center.stages[s].end) - cuts.begin());
      const std::int32_t first = std::max(0, at - reach);
      windows_[s] = {first, std::min(all, at + reach + 1) - first};
    }
    windows_.back() = {all, 1};
  }
  void price_stages(const Candidate& center) {
    times_.assign(center.stages.size(), {});
    const auto stages = static_cast<std::int32_t>(center.stages.size());
    Candidate probe = center;
    for (std::size_t s = 0; s < center.stages.size() && !run_.stopped(); ++s) {
      const StagePlace place{center.first_device_of(s), center.stages[s].devices,
                             stages - static_cast<std::int32_t>(s)};
      ends_.clear();
      for (std::int32_t i = 0; i < windows_[s].count; ++i) ends_.push_back(end_at(s, i));
      for (std::int32_t b = 0; b < begins(s); ++b) {
        const std::int32_t begin = s == 0 ? 0 : end_at(s - 1, b);
        if (s > 0) probe.stages[s - 1].end = begin;
        price_stage(probe, s, begin, ends_, place);
      }
    }
    for (std::size_t s = 0; s < center.stages.size(); ++s) {
      times_[s].resize(static_cast<std::size_t>(begins(s)) * static_cast<std::size_t>(windows_[s].count), kInfinite);
    }
  }
  void price_stage(Candidate& probe, std::size_t s, std::int32_t begin, std::span<const std::int32_t> ends,
                   const StagePlace& place) {
    const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
    std::vector<double>& times = times_[s];
    times.insert(times.end(), static_cast<std::size_t>(first - ends.begin()), kInfinite);
    if (pricer_ != nullptr) {
      const std::span<const std::int32_t> behind = ends.subspan(static_cast<std::size_t>(first - ends.begin()));
      if (behind.empty()) return;
      const std::span<const double> found = pricer_->times(begin, behind, place);
      times.insert(times.end(), found.begin(), found.end());
      return;
    }
    for (auto end = first; end != ends.end(); ++end) {
      probe.stages[s].end = *end;
      times.push_back(own_ms_if_fits(run_.evaluator(), probe, s));
    }
  }
  // The least possible slowest stage.
  [[nodiscard]] double least_slowest() const {
    std::vector<double> before{0.0};
    for (std::size_t s = 0; s < windows_.size(); ++s) {
      std::vector<double> here(static_cast<std::size_t>(windows_[s].count), kInfinite);
      for (std::int32_t to = 0; to < windows_[s].count; ++to) {
        for (std::int32_t from = 0; from < begins(s); ++from) {
          here[to] = std::min(here[to], std::max(before[from], time(s, from, to)));
        }
      }
      before = std::move(here);
    }
    return before.front();
  }
  // The cuts with the least sum of times under a limit of each; false where there are none.
  [[nodiscard]] bool solve(double limit) {
    std::vector<double> before{0.0};
    std::vector<std::vector<std::int32_t>> came(windows_.size());
    for (std::size_t s = 0; s < windows_.size(); ++s) {
      std::vector<double> here(static_cast<std::size_t>(windows_[s].count), kInfinite);
      came[s].assign(here.size(), 0);
      for (std::int32_t to = 0; to < windows_[s].count; ++to) {
        for (std::int32_t from = 0; from < begins(s); ++from) {
          const double own = time(s, from, to);
          if (own > limit || before[from] + own >= here[to]) continue;
          here[to] = before[from] + own;
          came[s][to] = from;
        }
      }
      before = std::move(here);
    }
    if (before.front() == kInfinite) return false;
    chosen_.assign(windows_.size(), 0);
    for (std::size_t s = windows_.size() - 1; s > 0; --s) chosen_[s - 1] = came[s][chosen_[s]];
    return true;
  }
  [[nodiscard]] Candidate with_cuts(const Candidate& center) {
    Candidate candidate = center;
    const auto stages = static_cast<std::int32_t>(center.stages.size());
    for (std::size_t s = 0; s < center.stages.size(); ++s) candidate.stages[s].end = end_at(s, chosen_[s]);
    for (std::size_t s = 0; s < center.stages.size() && pricer_ != nullptr; ++s) {
      const StagePlace place{center.first_device_of(s), center.stages[s].devices,
                             stages - static_cast<std::int32_t>(s)};
      candidate.stages[s] = pricer_->stage(candidate.begin_of(s), candidate.stages[s].end, place);
    }
    return candidate;
  }

  [[nodiscard]] std::int32_t end_at(std::size_t s, std::int32_t i) const {
    const auto at = static_cast<std::size_t>(windows_[s].first + i);
    return at < run_.space().cuts.size() ? run_.space().cuts[at] : run_.space().operators;
  }
  [[nodiscard]] double time(std::size_t s, std::int32_t from, std::int32_t to) const {
    return times_[s][static_cast<std::size_t>(from) * static_cast<std::size_t>(windows_[s].count) +
                     static_cast<std::size_t>(to)];
  }
  [[nodiscard]] std::int32_t begins(std::size_t s) const { return s == 0 ? 1 : windows_[s - 1].count; }

  SearchRun& run_;
  std::map<std::int32_t, std::unique_ptr<StagePricer>> pricers_;  // by microbatch
  StagePricer* pricer_ = nullptr;
  std::vector<Window> windows_;             // by stage
  std::vector<std::vector<double>> times_;  // by stage: ms, by begin and end within the windows
  std::vector<std::int32_t> chosen_;        // by stage: where it ends within its window
  std::vector<std::int32_t> ends_;
};

}  // namespace trimtab::tuner
