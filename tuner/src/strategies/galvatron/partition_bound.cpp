// What no partition of a pipeline takes less than, and the partitions that take it.
//
// An iteration joins its stages in a way of each variant's own. v1: the sum of their times, so the cuts of least sum
// are the answer. Paper, equation 9: (m - 1) times the longest plain time and the sum of times with synchronization.
// v2: the longest plain time m - 1 + P times and what synchronization filling does not hide.

#include <algorithm>

#include "strategies/galvatron/layerwise_search.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-12;
constexpr int kPaces = 512;  // that are looked at in a row; a search has a few dozen

}  // namespace

double LayerwiseSearch::Pipeline::every_share(Variant variant) const {
  if (variant == Variant::kV1) return 1;
  return 1.0 / (variant == Variant::kV2 ? microbatches - 1 + stages : microbatches);
}

CutShape LayerwiseSearch::shape_of(const Pipeline& pipeline) const {
  CutShape shape{&pipeline.table->ranges(), {}, may_cut_};
  for (std::int32_t s = 0; s < pipeline.stages; ++s) shape.rows.push_back(pipeline.table->row_of(s));
  return shape;
}

CutAnswer LayerwiseSearch::cuts(const Pipeline& pipeline, CutGoal goal, double sync_share, double below) {
  CutValues& values = pipeline.table->values(sync_share);
  return best_cuts(shape_of(pipeline), goal, values, below,
                   [&](std::size_t slot) { pipeline.table->refine(values, slot, sync_share); });
}

double LayerwiseSearch::quick_bound(const Pipeline& pipeline) {
  const auto floor = [&](CutGoal goal, double share) {
    return best_cuts(shape_of(pipeline), goal, pipeline.table->values(share), 0, nullptr).least;
  };
  const double sum = formulas_.variant() == Variant::kV2 ? 0 : floor(CutGoal::kSum, 1);
  if (formulas_.variant() == Variant::kV1 || pipeline.microbatches == 1) return sum;
  const double filling = formulas_.variant() == Variant::kV2 ? pipeline.stages : 0;
  return sum + (pipeline.microbatches - 1 + filling) * floor(CutGoal::kMost, 0);
}

double LayerwiseSearch::bound_of(Pipeline& pipeline) {
  if (pipeline.stages == 1) return bound_of_one(pipeline);
  if (formulas_.variant() == Variant::kV2) return bound_v2(pipeline);
  if (formulas_.variant() == Variant::kPaper) return bound_paper(pipeline);
  const CutAnswer least = cuts(pipeline, CutGoal::kSum, 1, best_ms_);
  if (!least.partition.empty()) try_partition(pipeline, least.partition, "best cuts");
  return least.least;
}

// One stage is chosen exactly.
double LayerwiseSearch::bound_of_one(const Pipeline& pipeline) {
  const std::size_t slot = pipeline.table->slot(0, 0, pipeline.table->ranges().layers());
  const StagePoint* const point = pipeline.table->least(slot, pipeline.every_share(formulas_.variant()));
  return point == nullptr ? kInfinite : formulas_.iteration_ms({&point->sum, 1}, pipeline.microbatches);
}

// A stage's tail is its synchronization less all plain times up to its own, none of which exceeds the longest: with
// (M - s) times its plain time in the longest one's place, M = m - 1 + P, no stage s may take more than the iteration.
double LayerwiseSearch::bound_v2(Pipeline& pipeline) {
  StageTable& table = *pipeline.table;
  const auto count = static_cast<std::size_t>(table.ranges().count());
  const double times = pipeline.microbatches - 1 + pipeline.stages;
  CutShape shape = shape_of(pipeline);
  CutValues values;
  const CutValues& plain = table.values(0);
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const CutValues& tailed = table.values(1 / (times - s));
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t slot = table.row_of(s) + i;
      values.least.push_back(std::max(times * plain.least[slot], (times - s) * tailed.least[slot]));
    }
    shape.rows[static_cast<std::size_t>(s)] = static_cast<std::size_t>(s) * count;
  }
  values.exact.assign(values.least.size(), 0);
  const CutAnswer least = best_cuts(shape, CutGoal::kMost, values, best_ms_, [&](std::size_t where) {
    const auto stage = static_cast<std::int32_t>(where / count);
    const std::size_t slot = table.row_of(stage) + where % count;
    const double share = 1 / (times - stage);
    const StagePoint* const quickest = table.least(slot, 0);
    const StagePoint* const tailed = table.least(slot, share);
    values.least[where] = quickest == nullptr
                              ? kInfinite
                              : std::max(times * quickest->sum.plain_ms, (times - stage) * weighed(tailed->sum, share));
  });
  if (!least.partition.empty()) try_partition(pipeline, least.partition, "best cuts");
  return least.least;
}

double LayerwiseSearch::bound_paper(Pipeline& pipeline) {
  const CutAnswer sum = cuts(pipeline, CutGoal::kSum, 1, best_ms_);
  if (sum.partition.empty()) return sum.least;
  try_partition(pipeline, sum.partition, "best cuts");
  const double others = pipeline.microbatches - 1;
  if (others == 0) return sum.least;
  const CutAnswer pace = cuts(pipeline, CutGoal::kMost, 0, (best_ms_ - sum.least) / others);
  if (pace.partition.empty()) return others * pace.least + sum.least;
  try_partition(pipeline, pace.partition, "best cuts");
  return bound_by_pace(pipeline, pace.least, sum.least);
}

CutAnswer LayerwiseSearch::cuts_within(const Pipeline& pipeline, double pace, double below) {
  StageTable& table = *pipeline.table;
  const std::vector<double>& plain = table.values(0).least;
  CutValues values{table.values(1).least, std::vector<char>(table.slots(), 0)};
  for (std::size_t slot = 0; slot < plain.size(); ++slot) {
    if (plain[slot] > pace) values.least[slot] = kInfinite;
  }
  return best_cuts(shape_of(pipeline), CutGoal::kSum, values, below,
                   [&](std::size_t slot) { values.least[slot] = table.within(slot, pace).sync_ms; });
}

// From the slowest pace that may still be better downwards: the least sum at a pace bounds all plans of that pace and
// of quicker ones, and the path that has it says which pace it really needs; on from below that.
double LayerwiseSearch::bound_by_pace(Pipeline& pipeline, double least_pace, double least_sum) {
  StageTable& table = *pipeline.table;
  const double others = pipeline.microbatches - 1;
  double open = kInfinite;  // least of what was passed without being exact
  double pace = (best_ms_ - least_sum) / others;
  for (int i = 0; i < kPaces && pace >= least_pace && !stop_(); ++i) {
    const CutAnswer answer = cuts_within(pipeline, pace, best_ms_ * (1 - kEqual) - others * least_pace);
    least_sum = answer.least;
    if (answer.partition.empty()) break;
    Choices choices;
    double needed = 0;
    bool exact = true;
    std::int32_t begin = 0;
    for (std::int32_t s = 0; s < pipeline.stages; ++s) {
      const std::int32_t end = answer.partition[static_cast<std::size_t>(s)];
      const StageTable::Within within = table.within(table.slot(s, begin, end), pace);
      choices.push_back(within.point);
      needed = std::max(needed, within.point->sum.plain_ms);
      exact = exact && within.point->sum.sync_ms <= within.sync_ms * (1 + kEqual);
      begin = end;
    }
    try_partition(pipeline, answer.partition, "best cuts", choices);
    // Plans of a slower pace than this take longer than the best.
    double below = std::min(pace, (best_ms_ - least_sum) / others);
    if (exact) {
      below = std::min(below, needed * (1 - kEqual));
      open = std::min(open, others * needed + least_sum);
    } else if (below >= pace) {
      below = pace - (pace - least_pace) / 16 - kEqual * pace;
      open = std::min(open, others * below + least_sum);
    }
    pace = below;
  }
  if (pace < least_pace) return std::min(open, best_ms_);
  return std::min(open, others * least_pace + least_sum);
}

}  // namespace trimtab::tuner::galvatron
