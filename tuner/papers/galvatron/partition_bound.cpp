// What no partition of a pipeline takes less than, and the partitions that take it.
//
// An iteration joins its stages in a way of each variant's own. v1: the sum of their times, so the cuts of least sum
// are the answer. The others: the slowest stage's plain time, its pace, so many times, and a rest. Paper, equation 9: m
// - 1 paces, the rest is the sum of all times with synchronization. v2: m - 1 + P paces, the rest is what filling does
// not hide of a stage's synchronization.

#include <algorithm>

#include "papers/galvatron/layerwise_search.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-12;
// Of two paths with the same rest the one of the quicker pace: this much of the pace counts as rest.
constexpr double kQuicker = 1e-11;
constexpr int kPaces = 512;  // that are looked at in a row; a search has a few dozen

}  // namespace

double LayerwiseSearch::Pipeline::paces(Variant variant) const {
  return microbatches - 1 + (variant == Variant::kV2 ? stages : 0);
}

double LayerwiseSearch::Pipeline::every_share(Variant variant) const {
  if (variant == Variant::kV1) return 0;
  return 1 / (paces(variant) + (variant == Variant::kV2 ? 1 : 2));
}

CutShape LayerwiseSearch::shape_of(const Pipeline& pipeline) const {
  CutShape shape{&pipeline.table->ranges(), {}, may_cut_};
  for (std::int32_t s = 0; s < pipeline.stages; ++s) shape.rows.push_back(pipeline.table->row_of(s));
  return shape;
}

CutAnswer LayerwiseSearch::cuts(const Pipeline& pipeline, CutGoal goal, double sync_share, double below) {
  CutValues& values = pipeline.table->values(sync_share);
  return best_cuts(
      shape_of(pipeline), goal, values, below,
      [&](std::size_t slot) { pipeline.table->refine(values, slot, sync_share); }, stop_);
}

double LayerwiseSearch::quick_bound(const Pipeline& pipeline) {
  const Variant variant = formulas_.variant();
  const auto floor = [&](CutGoal goal, double share) {
    return best_cuts(shape_of(pipeline), goal, pipeline.table->values(share), kInfinite, nullptr).least;
  };
  if (variant == Variant::kV1) return floor(CutGoal::kSum, 0);
  const double paces = pipeline.paces(variant);
  const double sum = variant == Variant::kPaper ? 2 * floor(CutGoal::kSum, 0.5) : 0;
  return paces == 0 ? sum : sum + paces * floor(CutGoal::kMost, 0);
}

double LayerwiseSearch::bound_of(Pipeline& pipeline) {
  if (pipeline.stages == 1) return bound_of_one(pipeline);
  const bool sum_alone = pipeline.paces(formulas_.variant()) == 0 || formulas_.variant() == Variant::kV1;
  return sum_alone ? bound_by_sum(pipeline) : bound_by_pace(pipeline);
}

// One stage is chosen exactly.
double LayerwiseSearch::bound_of_one(const Pipeline& pipeline) {
  const std::size_t slot = pipeline.table->slot(0, 0, pipeline.table->ranges().layers());
  const StagePoint* const point = pipeline.table->least(slot, pipeline.every_share(formulas_.variant()));
  return point == nullptr ? kInfinite : formulas_.iteration_ms({&point->sum, 1}, pipeline.microbatches);
}

double LayerwiseSearch::bound_by_sum(Pipeline& pipeline) {
  const double share = pipeline.once_share(formulas_.variant());
  const double whole = 1 / (1 - share);
  const CutAnswer least = cuts(pipeline, CutGoal::kSum, share, best_ms_ / whole);
  if (!least.partition.empty()) try_partition(pipeline, least.partition, "best cuts");
  return whole * least.least;
}

// v2: of stage s, what synchronization adds is hidden by s stages before it at the most, each as slow as the pace.
CutAnswer LayerwiseSearch::cuts_within(const Pipeline& pipeline, double pace, double below) {
  StageTable& table = *pipeline.table;
  const auto count = static_cast<std::size_t>(table.ranges().count());
  const bool tail = formulas_.variant() == Variant::kV2;
  const double share = tail ? 1 : 0.5;
  const std::vector<double>& plain = table.values(0).least;
  const std::vector<double>& floor = table.values(share).least;
  const auto rest = [&](std::size_t stage, std::size_t slot, double least) {
    if (!tail) return 2 * least;
    return std::max(0.0, least - static_cast<double>(stage) * pace) + kQuicker * plain[slot];
  };
  CutShape shape = shape_of(pipeline);
  CutValues values;
  values.least.reserve(shape.rows.size() * count);
  for (std::size_t s = 0; s < shape.rows.size(); ++s) {
    for (std::size_t slot = shape.rows[s]; slot < shape.rows[s] + count; ++slot) {
      values.least.push_back(plain[slot] > pace ? kInfinite : rest(s, slot, floor[slot]));
    }
    shape.rows[s] = s * count;
  }
  values.exact.assign(values.least.size(), 0);
  const auto refine = [&](std::size_t where) {
    const std::size_t stage = where / count;
    const std::size_t slot = table.row_of(static_cast<std::int32_t>(stage)) + where % count;
    values.least[where] = rest(stage, slot, table.within(slot, pace, share).least);
  };
  CutAnswer answer = best_cuts(shape, tail ? CutGoal::kMost : CutGoal::kSum, values, below, refine, stop_);
  if (tail) answer.least = std::max(0.0, answer.least - kQuicker * pace);
  return answer;
}

LayerwiseSearch::Choices LayerwiseSearch::choices_within(const Pipeline& pipeline, const Partition& partition,
                                                         double pace) {
  const double share = formulas_.variant() == Variant::kV2 ? 1 : 0.5;
  Choices choices;
  std::int32_t begin = 0;
  for (std::int32_t s = 0; s < pipeline.stages; ++s) {
    const std::int32_t end = partition[static_cast<std::size_t>(s)];
    choices.push_back(pipeline.table->within(pipeline.table->slot(s, begin, end), pace, share).point);
    begin = end;
  }
  return choices;
}

// From the slowest pace that may still be better downwards. The least rest at a pace bounds the plans of that pace and
// of quicker ones; the path that has it says which pace it really needs, and the search goes on below that.
double LayerwiseSearch::bound_by_pace(Pipeline& pipeline) {
  const Variant variant = formulas_.variant();
  const double paces = pipeline.paces(variant);
  double rest = 0;
  if (variant == Variant::kPaper) {
    const CutAnswer sum = cuts(pipeline, CutGoal::kSum, 0.5, best_ms_ / 2);
    rest = 2 * sum.least;
    if (sum.partition.empty()) return rest;
    try_partition(pipeline, sum.partition, "best cuts");
  }
  const CutAnswer quickest = cuts(pipeline, CutGoal::kMost, 0, (best_ms_ - rest) / paces);
  if (quickest.partition.empty()) return paces * quickest.least + rest;
  try_partition(pipeline, quickest.partition, "best cuts");
  double open = kInfinite;  // least of what was passed without being exact
  double pace = (best_ms_ - rest) / paces;
  for (int i = 0; i < kPaces && pace >= quickest.least && !stop_(); ++i) {
    const CutAnswer answer = cuts_within(pipeline, pace, best_ms_ * (1 - kEqual) - paces * quickest.least);
    rest = std::max(rest, answer.least);
    if (answer.partition.empty()) break;
    const Choices choices = choices_within(pipeline, answer.partition, pace);
    try_partition(pipeline, answer.partition, "best cuts", choices);
    std::vector<StageSum> sums;
    double needed = 0;
    for (const StagePoint* const choice : choices) {
      sums.push_back(choice->sum);
      needed = std::max(needed, choice->sum.plain_ms);
    }
    // Plans of a slower pace than this take longer than the best.
    double below = (best_ms_ - rest) / paces;
    if (formulas_.iteration_ms(sums, pipeline.microbatches) <= (paces * needed + rest) * (1 + 10 * kEqual)) {
      below = std::min(below, needed * (1 - kEqual));
      open = std::min(open, paces * needed + rest);
    } else if (below >= pace * (1 - kEqual)) {
      below = pace - (pace - quickest.least) / 16 - kEqual * pace;
      open = std::min(open, paces * below + rest);
    }
    pace = below;
  }
  if (pace < quickest.least) return std::min(open, best_ms_);
  return std::min(open, paces * quickest.least + rest);
}

}  // namespace trimtab::tuner::galvatron
