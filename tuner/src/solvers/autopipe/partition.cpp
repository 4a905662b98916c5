#include "solvers/autopipe/partition.hpp"

#include <cmath>

#include "base/check.hpp"
#include "solvers/autopipe/slicer.hpp"

namespace trimtab::tuner::autopipe {
namespace {

// Half of a double's last digit at the size of the longest step: every sum of a step is exact, and no step changes by
// more than 1e-12 of itself.
double grid_of(const Blocks& blocks) {
  double all = 0;
  double transfer = 0;
  for (std::int32_t i = 0; i < blocks.count(); ++i) {
    all += blocks.forward[i] + blocks.backward[i];
  }
  for (const double one : blocks.transfer) transfer = std::max(transfer, one);
  const double longest = (blocks.microbatches + 2.0 * blocks.stages) * (all + 4 * transfer);
  return longest > 0 ? std::ldexp(1.0, std::ilogb(longest) + 2 - 53) : 0;
}

double rounded(double value, double grid) {
  return grid > 0 ? std::nearbyint(value / grid) * grid : value;
}

std::vector<double> sums_of(const std::vector<double>& values) {
  std::vector<double> sums{0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

}  // namespace

Partitions::Partitions(const Blocks& blocks)
    : count_(blocks.count()),
      stages_(blocks.stages),
      microbatches_(blocks.microbatches),
      transfers_(blocks.transfers),
      slices_(blocks.slices),
      grid_(grid_of(blocks)),
      reach_(blocks.reach),
      recompute_(blocks.recompute) {
  TRIMTAB_ASSERT(stages_ >= 1 && stages_ <= count_ && microbatches_ >= 1, "a partition has a block for each stage");
  const auto on_grid = [this](std::vector<double> values) {
    for (double& value : values) value = rounded(value, grid_);
    return values;
  };
  forward_ = sums_of(on_grid(blocks.forward));
  backward_ = sums_of(on_grid(blocks.backward));
  for (std::size_t i = 0; i < forward_.size(); ++i) work_.push_back(forward_[i] + backward_[i]);
  const std::vector<double> transfer = on_grid(blocks.transfer);
  const bool alike = transfer.size() == forward_.size() - 1;
  for (std::int32_t hop = 0; hop + 1 < stages_; ++hop) {
    const auto from = transfer.begin() + (alike ? 0 : static_cast<std::ptrdiff_t>(hop) * count_);
    transfer_.insert(transfer_.end(), from, from + count_);
    const double least = *std::min_element(from + 1, from + count_);
    least_transfer_ = hop == 0 ? least : std::min(least_transfer_, least);
  }
}

double Partitions::recomputed(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
  const auto key = (static_cast<std::uint64_t>(stage) << 48) | (static_cast<std::uint64_t>(begin) << 24) |
                   static_cast<std::uint64_t>(end);
  const auto found = recomputed_.find(key);
  if (found != recomputed_.end()) return found->second;
  return recomputed_.emplace(key, rounded(recompute_(stage, begin, end), grid_)).first->second;
}

bool Partitions::allowed(const Ends& ends) const {
  if (static_cast<std::int32_t>(ends.size()) != stages_) return false;
  std::int32_t begin = 0;
  for (std::int32_t x = 0; x < stages_; ++x) {
    if (ends[x] <= begin || !fits(x, begin, ends[x])) return false;
    begin = ends[x];
  }
  return begin == count_;
}

void StagePipeline::set(const Partitions& partitions, const Ends& ends) {
  microbatches_ = partitions.microbatches();
  transfers_ = partitions.transfers();
  std::int32_t begin = 0;
  for (std::int32_t x = 0; x < partitions.stages(); ++x) {
    forward_[x] = partitions.forward(begin, ends[x]);
    backward_[x] = partitions.backward(begin, ends[x]) + partitions.recompute(x, begin, ends[x]);
    transfer_[x] = partitions.transfer(x, ends[x]);
    begin = ends[x];
  }
}

Simulator::Simulator(const Partitions& partitions) : partitions_(partitions), stages_(partitions) {}

Pipeline Simulator::pipeline(const Ends& ends) {
  stages_.set(partitions_, ends);
  count(actions());
  return stages_.view();
}

double Simulator::time(const Ends& ends) {
  const Pipeline of = pipeline(ends);
  if (!partitions_.slices()) return step_time(of, times_);
  count(most_sliced(of) * actions());
  return best_slicing(of, times_).best;
}

Simulator::Step Simulator::step(const Ends& ends) {
  const Pipeline of = pipeline(ends);
  recorded_.record(of, times_);
  return {recorded_.end(), master_stage(of, recorded_)};
}

}  // namespace trimtab::tuner::autopipe
