#pragma once

// H3T's layer profiles out of a job's own documents: times from measured operators, collectives, copies between device
// and host and the host's optimizer, bytes from the model. Operators of the same `layer` that follow one another are
// one layer. Pure; any thread.

#include <set>
#include <string>
#include <vector>

#include "schema/plan.hpp"
#include "solvers/h3t/layer_profile.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner::h3t {

struct StepInputs {
  std::vector<LayerProfile> layers;
  std::vector<Range> operators;  // of each layer
  // By name, each with the benchmark that would fill it.
  std::set<std::string> missing;
  std::set<std::string> estimated;
};

// One microbatch of the whole global batch over `devices` replicas, from device 0 on. A layer's activations are what
// its operators store, less its output: that is the next layer's input. A forward pass that keeps nothing takes as long
// as one that keeps everything. REQUIRES: the global batch is a multiple of `devices`.
[[nodiscard]] StepInputs step_inputs(const CostTable& table, std::int32_t devices);

[[nodiscard]] std::vector<Range> layers_of(const Model& model);

}  // namespace trimtab::tuner::h3t
