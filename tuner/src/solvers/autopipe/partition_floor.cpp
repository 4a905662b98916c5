#include "solvers/autopipe/partition_floor.hpp"

namespace trimtab::tuner::autopipe {

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

}  // namespace trimtab::tuner::autopipe
