#include "balance.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::tuner {
namespace {

class Partition {
 public:
  Partition(const CostTable::Tables& tables, const PlanSpace& space, std::int32_t microbatch,
            const std::vector<std::int32_t>& devices)
      : tables_(tables), devices_(devices), microbatches_(tables.model.global_batch / microbatch) {
    for (const std::int32_t count : devices) costs_.push_back(tables.find(microbatch / count));
    bounds_.push_back(0);
    bounds_.insert(bounds_.end(), space.cuts.begin(), space.cuts.end());
    bounds_.push_back(tables.operators());
  }

  [[nodiscard]] bool possible() const {
    const bool priced = std::all_of(costs_.begin(), costs_.end(), [](const SampleTable* costs) {
      return costs != nullptr && costs->gaps.back() == 0;
    });
    return priced && bounds_.size() > costs_.size();
  }

  // Dynamic program over (stages placed, bound reached): the least possible busiest stage. The time of a stage grows
  // with its operators, so the best previous bound moves only forward.
  [[nodiscard]] std::vector<std::int32_t> solve(double& busiest) const {
    const std::size_t stages = costs_.size();
    const std::size_t bounds = bounds_.size();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> best(stages + 1, std::vector<double>(bounds, kInfinity));
    std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(bounds, 0));
    best[0][0] = 0;
    for (std::size_t s = 1; s <= stages; ++s) {
      std::size_t previous = s - 1;
      for (std::size_t b = s; b < bounds; ++b) {
        const auto value = [&](std::size_t p) { return std::max(best[s - 1][p], time(s - 1, p, b)); };
        while (previous + 1 < b && value(previous + 1) <= value(previous)) ++previous;
        best[s][b] = value(previous);
        from[s][b] = previous;
      }
    }
    busiest = best[stages][bounds - 1];
    std::vector<std::int32_t> ends(stages);
    for (std::size_t s = stages, b = bounds - 1; s > 0; b = from[s][b], --s) ends[s - 1] = bounds_[b];
    return ends;
  }

 private:
  [[nodiscard]] double time(std::size_t stage, std::size_t from, std::size_t to) const {
    const std::int32_t begin = bounds_[from];
    const std::int32_t end = bounds_[to];
    const SampleTable& costs = *costs_[stage];
    return microbatches_ * (costs.forward_sum[end] - costs.forward_sum[begin] + costs.backward_sum[end] -
                            costs.backward_sum[begin]) +
           tables_.optimizer_sum[end] - tables_.optimizer_sum[begin];
  }

  const CostTable::Tables& tables_;
  const std::vector<std::int32_t>& devices_;
  double microbatches_;
  std::vector<const SampleTable*> costs_;  // by stage
  std::vector<std::int32_t> bounds_;       // where stages may begin and end
};

}  // namespace

std::optional<Balanced> balance(const CostTable::Tables& tables, const Calibration& calibration, const PlanSpace& space,
                                std::int32_t microbatch, const std::vector<std::int32_t>& devices) {
  const Partition partition(tables, space, microbatch, devices);
  if (!partition.possible()) return std::nullopt;
  Balanced balanced;
  balanced.candidate.microbatch = microbatch;
  std::vector<std::int32_t> ends;
  if (space.knobs.uneven_stages) {
    ends = partition.solve(balanced.busiest_ms);
    balanced.busiest_ms *= calibration.computation.value;
  } else {
    ends = even_cuts(tables.model, static_cast<std::int32_t>(devices.size()));
    ends.push_back(tables.operators());
  }
  for (std::size_t s = 0; s < devices.size(); ++s) balanced.candidate.stages.push_back({ends[s], devices[s], 0});
  return balanced;
}

}  // namespace trimtab::tuner
