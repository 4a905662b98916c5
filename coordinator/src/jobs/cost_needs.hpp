#pragma once

// Which costs a job's plans need and nobody has, as benchmark requests in portions. Pure.
// Also: a job on nodes of several hardware fingerprints. Its costs are those of one of them; the others are told by how
// fast they compute beside it, which the benchmarks have measured on every node. Pure.

#include <map>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// `elsewhere`: what is known of the cluster's other fingerprints. `launches`: as of tuner::needed_costs().
[[nodiscard]] CostsCounted count_costs(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                       std::vector<Cost> known,
                                       const std::map<std::string, std::vector<Cost>>& elsewhere = {},
                                       bool launches = false);

// Of a job whose plans may be priced with what near hardware has. The requests are for probes until `decided`, then for
// what these leave to be measured. Where probes would save too little, all that is missing is asked for. A benchmark
// that has told no launch of the probes is not asked for the others'.
[[nodiscard]] CostsCounted count_costs_near(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                            std::vector<Cost> known, const NearFound& found,
                                            const tuner::NearHardware& near, bool decided, bool launches = false);

// Keys in portions of at most `items` benchmark items each; keys that one item fills stay together.
[[nodiscard]] std::vector<std::vector<CostKey>> portions(std::vector<CostKey> keys, std::size_t items);

struct MeasuredSpeed {
  double speed = 1;           // 0.5 = it takes twice as long
  std::size_t operators = 0;  // times of operators that both were measured for: the speed is the middle of their ratios
  std::size_t known = 0;      // those that `here` was measured for
  [[nodiscard]] bool is_sure() const { return 2 * operators >= known; }
};

// How fast `there` computes beside `here`, by the operators among the `needed` keys.
[[nodiscard]] MeasuredSpeed measured_speed(const std::vector<CostKey>& needed, const std::vector<Cost>& here,
                                           const std::vector<Cost>& there);

// Those of `here` without operators' times that `there` lacks: what is not known of both is yet to be measured.
[[nodiscard]] std::vector<Cost> known_of_both(std::vector<Cost> here, const std::vector<Cost>& there);

}  // namespace trimtab::coordinator
