#pragma once

// What the cost database remembers between jobs of one fingerprint: what their trials taught, how their hardware was
// probed, which plans failed, which launches benchmarks do not tell, and under which fingerprint their benchmarks store
// costs. Event loop's thread only.

#include <optional>
#include <string>
#include <vector>

#include "schema/cost_database.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

// Of one job. What cannot be read is not known; what cannot be stored is logged.
class JobFacts {
 public:
  // Both outlive it.
  JobFacts(CostDatabase& costs, const TuningState& state) : costs_(costs), state_(state) {}

  // A job's environment may be part of the fingerprint that its benchmarks store costs under; which one that is on
  // this hardware is a fact of earlier runs.
  [[nodiscard]] std::string fingerprint_on(const std::string& hardware) const;
  [[nodiscard]] Status remember_fingerprint(const std::string& hardware, const std::string& fingerprint);

  // What jobs of this name taught; else what the latest of any name did; empty = nothing.
  [[nodiscard]] std::string calibration() const;
  // What the latest job of any name has taught of this hardware; empty = nothing.
  [[nodiscard]] std::string factors_of_others() const;
  // `machines_shared`: others use the job's machines. What such a machine teaches is no prediction of the next job's
  // steps: of such a job later ones take over what memory it needs, and of its times nothing.
  void remember_calibration(const std::string& json, bool machines_shared);

  [[nodiscard]] std::optional<std::vector<Probe>> probes() const;
  void remember_probes(const std::string& json) { remember(name("probes"), json); }

  // Whether the job's benchmark command, asked for launches on this hardware, has left some untold.
  [[nodiscard]] bool are_launches_untold() const { return !fact(state_.fingerprint, untold_name()).empty(); }
  void remember_launches_untold(std::int32_t launches) { remember(untold_name(), std::to_string(launches)); }

  // Hashes of plans that later jobs are not to be offered.
  [[nodiscard]] std::vector<std::string> ruled_out() const;
  // Coordinators that share the database may know of other failures.
  void remember_failure(const std::string& plan_hash, const std::string& reason);

 private:
  [[nodiscard]] std::string fact(const std::string& fingerprint, const std::string& name) const;
  [[nodiscard]] std::string tenant_prefix() const;
  [[nodiscard]] std::string name(const std::string& what) const;
  [[nodiscard]] std::string failures_name() const;
  [[nodiscard]] std::string untold_name() const;
  void remember(const std::string& name, const std::string& json);

  CostDatabase& costs_;
  const TuningState& state_;
};

// The fact once `plan_hash` has failed for `reason` (RememberFailure), too. `known` null or no object: nothing was
// known.
[[nodiscard]] std::string with_failure(const std::string* known, const std::string& plan_hash,
                                       const std::string& reason);

// What later jobs are not to be offered. A hang may have been a link's, and a single crash that of a process beside
// the ranks: those are tried again.
[[nodiscard]] std::vector<std::string> ruled_out_by(const std::string& fact);

}  // namespace trimtab::coordinator
