#include "solvers/autopipe/partition.hpp"

#include <cmath>

#include "base/check.hpp"

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

// Ends of the halves of one microbatch after another, stage by stage, as if no backward and no sender were in the way.
class HalfEnds {
 public:
  explicit HalfEnds(const Pipeline& of)
      : of_(of), blocking_(of.transfers == Transfers::kBlocking), ends_(static_cast<std::size_t>(of.stages), 0.0) {}

  // The two halves of the next microbatch on stages [0, stages).
  void next(std::int32_t stages) {
    half(stages);
    half(stages);
  }
  [[nodiscard]] double end(std::int32_t stage) const { return ends_[stage]; }

 private:
  void half(std::int32_t stages) {
    for (std::int32_t x = 0; x < stages; ++x) {
      double begin = ends_[x];
      if (x > 0) {
        const double hop = of_.transfer[x - 1] / 2;
        begin = blocking_ ? std::max(begin, ends_[x - 1]) + hop : std::max(begin, ends_[x - 1] + hop);
      }
      ends_[x] = begin + of_.forward[x] / 2;
    }
  }

  const Pipeline& of_;
  const bool blocking_;
  std::vector<double> ends_;
};

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

PartitionFloor::PartitionFloor(const Partitions& partitions) : partitions_(partitions) {
  const std::int32_t blocks = partitions.blocks();
  const std::int32_t stages = partitions.stages();
  const auto row = static_cast<std::size_t>(blocks) + 1;
  rest_.assign((static_cast<std::size_t>(stages) + 1) * row, kNever);
  rest_[static_cast<std::size_t>(stages) * row + blocks] = 0;
  for (std::int32_t x = stages - 1; x >= 0; --x) {
    for (std::int32_t begin = x; begin < blocks; ++begin) {
      double& best = rest_[static_cast<std::size_t>(x) * row + begin];
      const std::int32_t furthest = std::min(partitions.reach(x, begin), blocks - (stages - 1 - x));
      for (std::int32_t end = begin + 1; end <= furthest; ++end) {
        // The stage alone only grows with its blocks.
        if (partitions.microbatches() * partitions.work(begin, end) >= best) break;
        best = std::min(best, floor_from(x, begin, end));
      }
    }
  }
}

double PartitionFloor::floor_from(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
  return std::max(of_stage(stage, begin, end), passing(stage, begin, end) + rest(stage + 1, end));
}

double PartitionFloor::of_stage(std::int32_t x, std::int32_t begin, std::int32_t end) const {
  const double m = partitions_.microbatches();
  const double warmup = partitions_.warmup(x);
  const double f = partitions_.forward(begin, end);
  const double b = partitions_.backward(begin, end);
  const double in = partitions_.transfer(x - 1, begin);
  const double out = partitions_.transfer(x, end);
  const bool blocking = partitions_.transfers() == Transfers::kBlocking;
  double stay = m * (f + b);
  if (blocking && warmup < m) stay += out * (m + warmup) + in * (m + warmup - 1);
  if (blocking && warmup >= m) stay += out * 2 * m + in * (2 * m - 2);
  if (end == partitions_.blocks()) return stay;
  // Down to the last stage and back, for the first microbatch and for the last.
  const double hops = out + (partitions_.stages() - 2 - x) * partitions_.least_transfer();
  const double share = partitions_.slices() ? 0.5 : 1.0;
  const double down = f + partitions_.forward(end, partitions_.blocks()) + hops;
  const double up = b + partitions_.backward(end, partitions_.blocks()) + hops;
  const double round_trip = share * down + up;
  const double paired = std::max(0.0, m - 1 - warmup);
  const double held = blocking ? (m - 1) * (in + out) : 0;
  const double after = (m - 1) * b + paired * f;
  const double before = (m - 1) * f + paired * b;
  return std::max(stay, round_trip + held + std::max(after, before));
}

double PartitionFloor::of_pair(std::int32_t x, const Stage& first, std::int32_t z, const Stage& second,
                               double filled) const {
  const double m = partitions_.microbatches();
  const double warmup = partitions_.warmup(x);
  if (warmup >= m) return 0;
  const double f = partitions_.forward(second.begin, second.end);
  const double b = partitions_.backward(second.begin, second.end);
  const double shared = m - (z - x);
  const double draining = (m - warmup) * b + shared * f + warmup * partitions_.backward(first.begin, first.end);
  const double filling = (m - warmup) * f + shared * b + warmup * partitions_.forward(first.begin, first.end);
  return filled + std::max(draining, filling);
}

double PartitionFloor::quick(const Ends& ends) const {
  double filled = 0;
  double most = 0;
  std::int32_t begin = 0;
  for (std::int32_t x = 0; x < partitions_.stages(); ++x) {
    most = std::max(most, filled + of_stage(x, begin, ends[x]));
    filled += passing(x, begin, ends[x]);
    begin = ends[x];
  }
  return most;
}

double PartitionFloor::of(const Ends& ends) const {
  double filled = passing(0, 0, ends[0]);
  double most = quick(ends);
  for (std::int32_t z = 1; z < partitions_.stages(); ++z) {
    const Stage at{ends[z - 1], ends[z]};
    for (std::int32_t x = 0; x < z; ++x) {
      most = std::max(most, of_pair(x, {x > 0 ? ends[x - 1] : 0, ends[x]}, z, at, filled));
    }
    filled += passing(z, at.begin, at.end);
  }
  return most;
}

Ends PartitionFloor::ends_of_least() const {
  Ends ends;
  std::int32_t begin = 0;
  for (std::int32_t x = 0; x < partitions_.stages(); ++x) {
    std::int32_t end = begin + 1;
    while (end > partitions_.reach(x, begin) || floor_from(x, begin, end) > rest(x, begin)) ++end;
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

SlicingGain best_slicing(Pipeline pipeline, PipelineTimes& scratch) {
  pipeline.sliced = 0;
  SlicingGain gain;
  gain.plain = gain.best = step_time(pipeline, scratch);
  for (pipeline.sliced = 1; pipeline.sliced <= most_sliced(pipeline); ++pipeline.sliced) {
    const double time = step_time(pipeline, scratch);
    if (time >= gain.best) continue;
    gain.best = time;
    gain.sliced = pipeline.sliced;
  }
  return gain;
}

std::int32_t algorithm_2(const Pipeline& pipeline) {
  const std::int32_t last = pipeline.stages - 1;
  const std::int32_t most = most_sliced(pipeline);
  if (most <= 0) return 0;
  const bool blocking = pipeline.transfers == Transfers::kBlocking;
  HalfEnds halves(pipeline);
  halves.next(pipeline.stages);
  // When stage x may begin its second steady forward: the first backward has come up to it and ended.
  std::vector<double> slot(static_cast<std::size_t>(pipeline.stages));
  double drained = halves.end(last);
  for (std::int32_t x = last; x >= 0; --x) {
    if (x < last) drained += pipeline.transfer[x];
    drained += pipeline.backward[x];
    slot[x] = drained + (blocking && x > 0 ? pipeline.transfer[x - 1] : 0);
  }
  for (std::int32_t sliced = 1; sliced < most; ++sliced) {
    if (sliced > 1) halves.next(pipeline.stages - sliced + 1);
    // The latest that the microbatch after may begin, whole, to be at its slot on stage p - sliced in time.
    double latest = slot[pipeline.stages - sliced];
    for (std::int32_t x = 0; x < pipeline.stages - sliced; ++x) latest -= pipeline.forward[x] + pipeline.transfer[x];
    if (latest >= halves.end(0)) return sliced;
  }
  return most;
}

double startup_overhead(const Pipeline& pipeline, bool sliced) {
  double time = 0;
  for (std::int32_t x = 0; x + 1 < pipeline.stages; ++x) time += pipeline.forward[x] + pipeline.transfer[x];
  return sliced ? time * pipeline.half_slowdown / 2 : time;
}

}  // namespace trimtab::tuner::autopipe
