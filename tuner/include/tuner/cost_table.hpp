#pragma once

// Dense, immutable tables of everything a plan's price is made of, built once per (model, cluster, costs). Operators
// and collectives are interpolated between measured points only; outside of them a cost is missing, by name, unless
// estimates were asked for: then the nearest point is scaled and the use is flagged. Any thread may read a built table.

#include <memory>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

struct CostTableOptions {
  bool allow_estimates = false;
  // For models that price forward and backward passes alone: gradient synchronization, the reduction of tied parameters
  // and the optimizer step take no time, and none of their costs is missed.
  bool passes_only = false;
  // Of the variance of an operator's times, the share that is a device's own slowness, the same in every microbatch;
  // the rest is independent from pass to pass. 0 to 1. Costs are merged over devices and cannot say it.
  double device_share = 0;
};

class CostTable {
 public:
  // Fails when the model and the costs share nothing at all; single gaps are reported by the predictions that need
  // them.
  [[nodiscard]] static Result<CostTable> build(const Model& model, const Cluster& cluster,
                                               const std::vector<Cost>& costs, CostTableOptions options = {});

  // The same costs on another cluster of the same nodes and links: more devices or memory. Counts of samples that only
  // the other cluster's plans use are missing.
  [[nodiscard]] CostTable on(const Cluster& cluster) const;

  // The same costs, where the passes of operators take so many times as long, by cost key (absent = once), and the
  // memory that was measured is so many times as much. What follows from shapes alone stays: parameters, outputs.
  [[nodiscard]] CostTable scaled(const std::map<std::string, double>& passes, double memory) const;

  // By which training corrects the passes of operators, by cost key (cost_choice.hpp); absent = 1.
  [[nodiscard]] const std::map<std::string, double>& training_corrections() const;

  struct Tables;  // the layout, for the tuner's own sources
  [[nodiscard]] const Tables& tables() const { return *tables_; }
  [[nodiscard]] const Model& model() const;
  [[nodiscard]] const Cluster& cluster() const;

 private:
  explicit CostTable(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

}  // namespace trimtab::tuner
