#pragma once

// Partitions of layers over the stages of a pipeline, from memory-balanced to time-balanced (Galvatron-BMW, section
// IV-B, equations 6 to 8 and Algorithm 2). Pure: plain arrays in, partitions out.

#include <cstdint>
#include <vector>

namespace trimtab::tuner::galvatron {

// One past the last layer of each stage.
using Partition = std::vector<std::int32_t>;

struct PartitionCosts {
  std::int32_t layers = 0;
  std::int32_t stages = 0;
  std::vector<double> ms;        // of each layer
  std::vector<double> mib;       // of each layer in each stage, [stage * layers + layer]
  std::vector<double> reserved;  // MiB of each stage besides

  [[nodiscard]] double stage_ms(const Partition& partition, std::int32_t stage) const;
  [[nodiscard]] double stage_mib(const Partition& partition, std::int32_t stage) const;
  [[nodiscard]] double most_ms(const Partition& partition) const;
  [[nodiscard]] double most_mib(const Partition& partition) const;
};

// Equation 6: 1 - the largest share; 1 - 1/stages where all are equal.
struct BalanceDegrees {
  double time = 0;    // alpha_t
  double memory = 0;  // alpha_m
};

[[nodiscard]] BalanceDegrees balance_degrees(const PartitionCosts& costs, const Partition& partition);

// p_m and p_t: no partition has a smaller largest stage. REQUIRES: 1 <= stages <= layers.
[[nodiscard]] Partition memory_balanced(const PartitionCosts& costs);
[[nodiscard]] Partition time_balanced(const PartitionCosts& costs);
// Equal counts of layers, the rest on the last stage.
[[nodiscard]] Partition even_partition(std::int32_t layers, std::int32_t stages);

// Algorithm 2's step: a boundary layer of the slowest stage moves to a neighbour. Only partitions that Validate lets
// pass: no stage is slower than the slowest was, none needs more than `limit_mib`, nor more than `most_mib`, the
// fullest stage of the time-balanced partition.
[[nodiscard]] std::vector<Partition> adjustments(const PartitionCosts& costs, const Partition& partition,
                                                 double limit_mib, double most_mib);

// Every partition in which one stage has a layer more and another one less: the cuts between them shift by one.
[[nodiscard]] std::vector<Partition> neighbours(const Partition& partition);

}  // namespace trimtab::tuner::galvatron
