#pragma once

// The layout of CostTable: dense arrays over operators for each count of samples per replica, with prefix sums, so that
// a stage's price is a few subtractions. Immutable once built. Times in ms, sizes in bytes; a missing cost stands as 0
// and is counted in `gaps`.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "curve.hpp"
#include "link_costs.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

using Doubles = std::vector<double>;

// What one kind of operator (one cost_key) costs at one count of samples.
struct OperatorCosts {
  Value forward;
  Value backward;
  Value stored;
  Value working;
};

struct SampleTable {
  std::int32_t samples = 0;
  std::vector<OperatorCosts> of_group;            // by group
  Doubles forward, backward, stored, working;     // by operator
  Doubles forward_sum, backward_sum, stored_sum;  // over operators before i; size n + 1
  std::vector<std::int32_t> gaps;                 // operators before i that miss a cost; size n + 1
};

// Gradient all-reduces over `dp` replicas.
struct SyncTable {
  std::vector<Value> all_reduce;  // by operator
  OverlapSlowdown overlap;
};

struct CostTable::Tables {
  Model model;
  Cluster cluster;
  LinkCosts links;

  std::vector<std::int32_t> group_of;    // operator to group
  std::vector<std::string> group_names;  // cost_key by group
  std::vector<Value> optimizer_of_group;
  Doubles parameter_sum, optimizer_sum;  // prefix sums; size n + 1
  Doubles output;                        // bytes per sample, by operator
  Doubles gradient;                      // bytes, by operator
  double state_factor = 1;               // bytes of states for one byte of parameters
  Value process_bytes;
  double step_overhead_ms = 0;

  std::vector<SampleTable> samples;
  std::vector<std::int32_t> sample_index;    // samples to index, -1 where no plan uses that many
  std::vector<std::vector<SyncTable>> sync;  // [dp][placement]; empty where dp cannot occur

  [[nodiscard]] std::int32_t operators() const { return static_cast<std::int32_t>(group_of.size()); }
  // nullptr where no plan of the model uses so many samples per replica.
  [[nodiscard]] const SampleTable* find(std::int32_t samples_per_replica) const {
    const bool known = samples_per_replica >= 0 &&
                       samples_per_replica < static_cast<std::int32_t>(sample_index.size()) &&
                       sample_index[samples_per_replica] >= 0;
    return known ? &samples[sample_index[samples_per_replica]] : nullptr;
  }
  // nullptr where no plan of the model has so many replicas.
  [[nodiscard]] const SyncTable* find_sync(std::int32_t dp, Placement placement) const {
    const bool known = dp >= 0 && dp < static_cast<std::int32_t>(sync.size()) && !sync[dp].empty();
    return known ? &sync[dp][static_cast<std::size_t>(placement)] : nullptr;
  }
};

}  // namespace trimtab::tuner
