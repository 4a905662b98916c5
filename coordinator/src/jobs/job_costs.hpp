#pragma once

// The costs that a job's plans are priced with: its own, those of nodes of other hardware, and what is taken over of
// near hardware. Event loop's thread only.

#include "jobs/job_facts.hpp"
#include "jobs/near_hardware.hpp"
#include "needs.hpp"

namespace trimtab::coordinator {

class JobCosts {
 public:
  // All outlive it.
  JobCosts(const TuningState& state, JobFacts& facts, const JobNeeds& services)
      : state_(state), facts_(facts), services_(services) {}

  // What plans can be priced with. Empty when the database cannot be read.
  [[nodiscard]] std::vector<Cost> known() const;
  // Which of those that its plans need are known (CountCosts).
  [[nodiscard]] CostsCounted count() const;
  // A benchmark's on a node has been stored under this fingerprint. True: the job's costs are under it, and not under
  // the one that was taken for the job's so far. REQUIRES: the job profiles.
  [[nodiscard]] bool stored(const std::string& node, const std::string& fingerprint);
  // What benchmarks did not tell, and what is taken over, once each.
  void remember();
  // That the costs are of.
  [[nodiscard]] std::string own_hardware(const Cluster& cluster) const;

 private:
  [[nodiscard]] std::vector<Cost> of(const std::string& fingerprint) const;
  [[nodiscard]] std::set<std::string> other_hardware(const Cluster& cluster) const;
  [[nodiscard]] std::optional<Fingerprint> own_fingerprint(const Cluster& cluster) const;
  [[nodiscard]] std::optional<NearCosts> near_costs(const Model& model, const Cluster& cluster, bool launches) const;
  [[nodiscard]] bool asks_for_launches(const Cluster& cluster) const;

  const TuningState& state_;
  JobFacts& facts_;
  const JobNeeds& services_;
  std::int32_t told_near_ = 0;    // costs taken over, as the database was told
  bool benchmark_told_ = false;   // some costs of this run's profiling have come
  std::int32_t told_untold_ = 0;  // launches that the benchmark did not tell, as it was told
};

}  // namespace trimtab::coordinator
