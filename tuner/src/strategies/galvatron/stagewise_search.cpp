// Galvatron-BMW's Algorithm 2 over any cost model that prices stages: one strategy for each stage, the pipeline cut
// from memory-balanced to time-balanced. What is recomputed follows the cost model's own choice.

#include <algorithm>
#include <deque>
#include <limits>
#include <set>

#include "strategies/candidates.hpp"
#include "strategies/galvatron/partition.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace galvatron {
namespace {

constexpr double kMiB = 1048576;

// One pipeline degree at one microbatch.
class Pipeline {
 public:
  Pipeline(SearchRun& run, std::int32_t stages, std::int32_t microbatch)
      : run_(run),
        stages_(stages),
        microbatch_(microbatch),
        devices_(run.space().devices / stages),
        splits_(run.space().splits(run.model(), microbatch, devices_)),
        may_cut_(run.model().operators.size() + 1, false) {
    for (const std::int32_t cut : run.space().cuts) may_cut_[static_cast<std::size_t>(cut)] = true;
  }

  void search() {
    if (splits_.empty()) return;
    if (!allows_even_devices(run_.space(), stages_)) return;
    const PartitionCosts costs = rough_costs();
    if (costs.ms.empty()) {  // costs are missing: one plan's price says which
      run_.consider(candidate_of(even_partition(costs.layers, stages_)));
      return;
    }
    const Partition by_time = snapped(time_balanced(costs));
    for (const Partition& start : {snapped(memory_balanced(costs)), by_time}) {
      if (!start.empty()) adjust(start);
    }
  }

 private:
  // What operators take on replicas alone and hold with their states shared out: for the two ends of the walk.
  [[nodiscard]] PartitionCosts rough_costs() const {
    const Model& model = run_.model();
    PartitionCosts costs;
    costs.layers = static_cast<std::int32_t>(model.operators.size());
    costs.stages = stages_;
    const std::span<const double> sums = run_.evaluator().computing_sums(microbatch_, splits_.front());
    for (std::size_t i = 0; i + 1 < sums.size(); ++i) costs.ms.push_back(sums[i + 1] - sums[i]);
    const double held = 1 + model.gradient_bytes_per_parameter_byte + model.optimizer_bytes_per_parameter_byte;
    const std::int32_t steps = model.global_batch / microbatch_;
    for (std::int32_t s = 0; s < stages_; ++s) {
      const double samples = static_cast<double>(microbatch_) / devices_ * std::min(steps, stages_ - s);
      for (const Operator& op : model.operators) {
        costs.mib.push_back((static_cast<double>(op.parameter_bytes) * held / devices_ +
                             static_cast<double>(op.activation_bytes) * samples) /
                            kMiB);
      }
    }
    costs.reserved.assign(static_cast<std::size_t>(stages_), 0);
    return costs;
  }

  // Moves each cut to the nearest that the model allows; empty where there are too few.
  [[nodiscard]] Partition snapped(Partition partition) const {
    const auto last = static_cast<std::int32_t>(may_cut_.size()) - 1;
    std::int32_t before = 0;
    for (std::size_t s = 0; s + 1 < partition.size(); ++s) {
      std::int32_t best = -1;
      const auto remaining = static_cast<std::int32_t>(partition.size() - 1 - s);
      for (std::int32_t cut = before + 1; cut <= last - remaining; ++cut) {
        if (!may_cut_[static_cast<std::size_t>(cut)]) continue;
        if (best < 0 || std::abs(cut - partition[s]) < std::abs(best - partition[s])) best = cut;
      }
      if (best < 0) return {};
      partition[s] = before = best;
    }
    return partition;
  }

  [[nodiscard]] Candidate candidate_of(const Partition& partition) const {
    return uniform_candidate(microbatch_, partition, devices_, splits_.front());
  }

  // Each stage under the split that fits in the least time.
  [[nodiscard]] Candidate chosen(const Partition& partition) {
    Candidate candidate = candidate_of(partition);
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      Split best = splits_.front();
      Score best_score;
      for (const Split& split : splits_) {
        candidate.stages[s].split = split;
        const StagePrice& price = run_.evaluator().stage(candidate, s);
        const Score score{price.priced, price.excess_bytes, price.step_ms};
        if (score.better_than(best_score)) {
          best_score = score;
          best = split;
        }
      }
      candidate.stages[s].split = best;
    }
    return candidate;
  }

  // A boundary operator of the slowest stage goes to a neighbour as long as no stage becomes slower than that was.
  void adjust(const Partition& start) {
    std::deque<Partition> queue{start};
    while (!queue.empty() && !run_.stopped()) {
      const Partition partition = queue.front();
      queue.pop_front();
      if (!seen_.insert(partition).second) continue;
      const Candidate candidate = chosen(partition);
      const Score score = run_.consider(candidate);
      report(partition, score);
      if (!score.priced) continue;
      std::vector<double> ms;
      for (std::size_t s = 0; s < partition.size(); ++s) {
        ms.push_back(run_.evaluator().stage(candidate, s).step_ms);
      }
      const auto slowest = static_cast<std::size_t>(std::max_element(ms.begin(), ms.end()) - ms.begin());
      for (const Partition& next : moves(partition, slowest)) {
        if (slowest_ms(next) <= ms[slowest] * (1 + 1e-9)) queue.push_back(next);
      }
    }
  }

  [[nodiscard]] double slowest_ms(const Partition& partition) {
    const Candidate candidate = chosen(partition);
    double most = 0;
    for (std::size_t s = 0; s < partition.size(); ++s) {
      const StagePrice& price = run_.evaluator().stage(candidate, s);
      if (!price.priced || price.excess_bytes > 0) return std::numeric_limits<double>::infinity();
      most = std::max(most, price.step_ms);
    }
    return most;
  }

  [[nodiscard]] std::vector<Partition> moves(const Partition& partition, std::size_t slowest) const {
    std::vector<Partition> all;
    const std::int32_t begin = slowest == 0 ? 0 : partition[slowest - 1];
    if (slowest > 0) {
      Partition moved = partition;
      std::int32_t& cut = moved[slowest - 1];
      do ++cut;
      while (cut < partition[slowest] && !may_cut_[static_cast<std::size_t>(cut)]);
      if (cut < partition[slowest]) all.push_back(std::move(moved));
    }
    if (slowest + 1 < partition.size()) {
      Partition moved = partition;
      std::int32_t& cut = moved[slowest];
      do --cut;
      while (cut > begin && !may_cut_[static_cast<std::size_t>(cut)]);
      if (cut > begin) all.push_back(std::move(moved));
    }
    return all;
  }

  void report(const Partition& partition, const Score& score) {
    if (!score.fits() || score.ms >= best_ms_) return;
    std::string what = "partition";
    std::int32_t begin = 0;
    for (const std::int32_t end : partition) {
      what += " " + std::to_string(end - begin);
      begin = end;
    }
    run_.step(timed_step(run_, partition.size(),
                         std::to_string(run_.model().global_batch / microbatch_) + " microbatches", std::move(what),
                         best_ms_, score.ms));
    best_ms_ = score.ms;
  }

  SearchRun& run_;
  std::int32_t stages_;
  std::int32_t microbatch_;
  std::int32_t devices_;
  std::vector<Split> splits_;
  std::vector<bool> may_cut_;
  std::set<Partition> seen_;
  double best_ms_ = std::numeric_limits<double>::infinity();
};

StrategyEnd search_stagewise(SearchRun& run) {
  const PlanSpace& space = run.space();
  for (std::int32_t stages = 1; stages <= space.stages_max; stages *= 2) {
    if (stages < space.stages_min || space.devices % stages != 0) continue;
    for (const std::int32_t microbatch : space.microbatches) {
      if (run.stopped()) return {"converged"};
      Pipeline(run, stages, microbatch).search();
    }
  }
  return {"converged"};
}

}  // namespace
}  // namespace galvatron

StrategyEnd run_galvatron(SearchRun& run, const std::optional<Candidate>& start) {
  if (start) run.consider(*start);
  return galvatron::search_stagewise(run);
}

}  // namespace trimtab::tuner
