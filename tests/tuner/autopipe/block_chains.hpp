#pragma once

// Chains of blocks for tests and benchmarks of AutoPipe's planner, and every way to cut one.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/random.hpp"
#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::test {

// Attention and feedforward blocks in turn between an embedding and a head, as of a GPT: times in microseconds, `by`
// the spread of each block.
[[nodiscard]] inline autopipe::Blocks gpt_blocks(Random& random, std::int32_t layers, double spread, double transfer) {
  autopipe::Blocks blocks;
  const auto add = [&](double forward, double ratio) {
    forward *= 1 + spread * (2 * random.uniform() - 1);
    blocks.forward.push_back(std::nearbyint(forward));
    blocks.backward.push_back(std::nearbyint(forward * ratio));
    blocks.transfer.push_back(transfer);
  };
  add(300, 2);
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    add(460, 3);
    add(540, 3);
  }
  add(1300, 2);
  return blocks;
}

[[nodiscard]] inline autopipe::Blocks random_blocks(Random& random, std::int32_t count) {
  autopipe::Blocks blocks;
  const bool even = random.below(3) == 0;
  const std::int64_t longest = random.below(3) == 0 ? 0 : random.between(1, 40);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int64_t forward = even ? random.between(95, 105) : random.between(30, 150);
    blocks.forward.push_back(static_cast<double>(forward));
    blocks.backward.push_back(static_cast<double>(forward * random.between(130, 320) / 100));
    blocks.transfer.push_back(static_cast<double>(random.between(longest / 2, longest)));
  }
  return blocks;
}

// Limits by bytes: a stage keeps `states` of its blocks, and `kept` of each for every microbatch that it holds.
inline void limit_memory(Random& random, double share, autopipe::Blocks& blocks) {
  const std::int32_t count = blocks.count();
  std::vector<double> states, kept;
  double all = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    states.push_back(static_cast<double>(random.between(10, 60)));
    kept.push_back(static_cast<double>(random.between(5, 20)));
    all += states.back() + kept.back() * std::min(blocks.microbatches, blocks.stages);
  }
  const double limit = share * all / blocks.stages;
  blocks.reach.clear();
  for (std::int32_t x = 0; x < blocks.stages; ++x) {
    const double held = std::min(blocks.microbatches, blocks.stages - x);
    for (std::int32_t begin = 0; begin < count; ++begin) {
      double bytes = 0;
      std::int32_t end = begin;
      while (end < count && bytes + states[end] + held * kept[end] <= limit) {
        bytes += states[end] + held * kept[end];
        ++end;
      }
      blocks.reach.push_back(end);
    }
  }
}

// visit(ends) for every partition that has a block in each stage and fits.
template <typename Visit>
void every_partition(const autopipe::Partitions& partitions, Visit&& visit, autopipe::Ends& ends, std::int32_t x = 0) {
  const std::int32_t stages = partitions.stages();
  const std::int32_t begin = x > 0 ? ends[x - 1] : 0;
  if (x + 1 == stages) {
    ends[x] = partitions.blocks();
    if (partitions.allowed(ends)) visit(ends);
    return;
  }
  for (std::int32_t end = begin + 1; end <= partitions.blocks() - (stages - 1 - x); ++end) {
    ends[x] = end;
    every_partition(partitions, visit, ends, x + 1);
  }
}

}  // namespace trimtab::tuner::test
