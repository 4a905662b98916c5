#pragma once

// Which rules a plan breaks. Pure; any thread.

#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

// Every broken rule, each naming the stage, the operator or the field, what was found and what would be right. Empty =
// the plan can be executed. Memory is not checked here: that is a prediction.
[[nodiscard]] std::vector<std::string> validate(const Plan& plan, const Model& model, const Cluster& cluster);

// The same, and that it sets no knob that the job does not honour.
[[nodiscard]] std::vector<std::string> validate(const Plan& plan, const Model& model, const Cluster& cluster,
                                                const Knobs& knobs);

// Whether ranks of some segment have a part of each sample's sequence alone: context parallelism, or sequence
// parallelism of tensor-parallel ranks. No knob of a job honours that; a target may (schema/target.hpp).
[[nodiscard]] bool shares_sequences(const Plan& plan);

// The usual guess: one stage per device, operators cut evenly by count of layers, full recompute, microbatch 1. With
// more devices than places to cut, or without the pipeline knob, stages share devices as evenly as the smallest
// microbatch that can be shared so allows. Where no plan uses every device, a plan that validate() says that of.
[[nodiscard]] Plan usual_guess(const Model& model, const Cluster& cluster, const Knobs& knobs);

}  // namespace trimtab::tuner
