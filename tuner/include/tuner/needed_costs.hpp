#pragma once

// Which costs the plans of a job may need: what active profiling has to measure. Pure; any thread.

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// Every key that some plan of the job's space needs (collectives and transfers at a handful of sizes that bracket what
// can occur), without those in `known`; a slowdown of overlap that training has shown well is known. Sorted, no
// repeats. `launches`: of GPUs (is_gpu()), what their hosts take to issue each pass and update, too. One measurement
// fills a launch and its pass, so a pass that was measured with its gaps is measured again.
[[nodiscard]] std::vector<CostKey> needed_costs(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                                const std::vector<Cost>& known, bool launches = false);

// The same as items of a benchmark request (docs/protocols.md): keys that one measurement fills are one item. Overlap
// is measured beside the model's heaviest operator (by flops, then parameters) at its largest count of samples that
// `keys` names, else at a middle one that its microbatches allow.
[[nodiscard]] std::string benchmark_requests_json(const std::vector<CostKey>& keys, const Model& model);

}  // namespace trimtab::tuner
