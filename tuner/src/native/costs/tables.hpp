#pragma once

// The layout of CostTable: dense arrays over operators for each count of samples per replica, each tensor-parallel
// degree and each sharding choice, with prefix sums. Immutable once built. Times in ms, sizes in bytes; a missing cost
// stands as 0 and is counted in `gaps`.
//
// An operator's times at tp > 1 contain its own tensor-parallel collectives: that is what the cost kinds mean. Where
// nothing was measured at tp > 1 an estimate, if asked for, is made from fewer ranks (tensor_estimate.hpp).
// Communication depends on a segment's whole split and is priced when one is seen (operator_price.hpp), not stored
// here.

#include <tuple>

#include "native/costs/launch_costs.hpp"
#include "native/costs/overlap_costs.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

using Doubles = std::vector<double>;

// What one group of equal operators costs on one rank.
struct OperatorCosts {
  Value forward;
  Value backward;
  Value stored;
  Value working;               // 0 and measured where the reserves below say it
  double forward_reserve = 0;  // where no working memory was measured
  double backward_reserve = 0;
  double parameters = 0;  // bytes
  // Of a pass at tp > 1, what is computing and no all-reduce, at least: what fewer ranks were measured to take,
  // perfectly shared. Whoever takes all-reduces out of a pass leaves this. 0 = unknown.
  double least_forward = 0;
  double least_backward = 0;

  [[nodiscard]] bool complete() const {
    return forward.quality != Quality::kMissing && backward.quality != Quality::kMissing &&
           stored.quality != Quality::kMissing && working.quality != Quality::kMissing;
  }
};

struct OperatorTable {
  std::int32_t samples = 0;
  std::int32_t tp = 1;
  std::vector<OperatorCosts> of_group;
  Doubles forward, backward, stored;  // by operator
  Doubles forward_sum, backward_sum;  // over operators before i; size n + 1
  std::vector<std::int32_t> gaps;     // operators before i that miss a cost; size n + 1
};

struct CostTable::Tables {
  Model model;
  Cluster cluster;
  LinkCosts links;
  OverlapCosts overlaps;
  LaunchCosts launches;

  // Operators of equal cost_key, parameters and sizes are one group.
  std::vector<std::int32_t> group_of;          // operator to group
  std::vector<std::int32_t> first_of;          // group to its first operator
  std::vector<std::string> group_names;        // cost_key by group
  std::vector<Value> optimizer_of_group;       // whole parameters on one rank
  std::vector<Value> host_optimizer_of_group;  // the same, by the host
  Doubles optimizer_sum;                       // prefix sums; size n + 1
  Doubles output;                              // bytes per sample, by operator
  std::vector<std::uint8_t> ends_run;          // by operator: a run of recomputed ones ends behind it, in any stage
  std::vector<std::uint8_t> output_unread;     // by operator: nobody keeps it, unless a run begins behind it
  double gradient_factor = 1;                  // bytes for one byte of parameters
  double optimizer_factor = 2;                 // bytes for one byte of parameters
  Value process_bytes;
  double step_overhead_ms = 0;
  bool passes_only = false;  // CostTableOptions
  double device_share = 0;   // CostTableOptions
  bool alternates = false;   // some operator has a second sharding choice

  std::vector<OperatorTable> operator_tables;  // [samples][tp][default, alternate]
  std::vector<std::int32_t> sample_index;      // samples to index, -1 where no plan uses that many
  std::vector<std::int32_t> tp_index;          // tp to index, -1 where there is no table
  std::int32_t tp_count = 1;
  OperatorTable unknown;  // every cost missing

  // Of ranks that share sequences (sequence_costs.hpp): as measured, by group, tp and sharding; and what `scaled` has
  // made of passes, by group, and of memory.
  std::map<std::tuple<std::int32_t, std::int32_t, std::string>, OperatorCurves> sharing_curves;
  Doubles pass_factors;
  double memory_factor = 1;
  std::map<std::string, double> training_corrections;  // cost_choice.hpp
  // By key, what the chosen costs rest on, for people.
  std::shared_ptr<const std::map<CostKey, std::string>> bases;

  [[nodiscard]] std::int32_t operators() const { return static_cast<std::int32_t>(group_of.size()); }
  [[nodiscard]] const Operator& operator_of(std::int32_t group) const { return model.operators[first_of[group]]; }
  // Every cost is missing where no plan of the model uses so many samples or ranks.
  [[nodiscard]] const OperatorTable& at(std::int32_t samples, std::int32_t tp = 1, bool alternate = false) const {
    const std::int32_t s = index(sample_index, samples);
    const std::int32_t t = index(tp_index, tp);
    if (s < 0 || t < 0) return unknown;
    const std::int32_t sides = alternates ? 2 : 1;
    return operator_tables[(s * tp_count + t) * sides + (alternate && alternates ? 1 : 0)];
  }

 private:
  static std::int32_t index(const std::vector<std::int32_t>& of, std::int32_t value) {
    return value >= 0 && value < static_cast<std::int32_t>(of.size()) ? of[value] : -1;
  }
};

}  // namespace trimtab::tuner
