#pragma once

// The best plans of a machine, by estimates alone: enumerated, memory first, then time. Pure: any thread.
//
// What is tried: each tensor-parallel degree inside of a node, each context-parallel one that leaves a rank 2,048
// tokens or more, each count of stages and of chunks (up to 8) that the layers divide by, each count of replicas and
// each microbatch (up to 32 samples) that the batch divides by, on all devices or fewer, each level of sharding that
// the target has, over all replicas or those of 1, 4 or 16 nodes. Of what can be recomputed or offloaded, what the
// memory demands: of layers as few as fit.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "estimates/estimate.hpp"
#include "estimates/measured_steps.hpp"
#include "estimates/target.hpp"

namespace trimtab::estimates {

struct FindOptions {
  std::int32_t global_batch = 1;
  Target target = Target::kMegatron;
  Precision precision = Precision::kBfloat16;
  std::int32_t gradient_bytes = 4;  // as in UniformPlan
  std::int32_t optimizer_bytes = 12;
  std::vector<Recomputed> recomputed;    // what may be recomputed; empty = all that the target can
  std::optional<Correction> correction;  // by measured steps
  bool offload = false;        // the optimizer's states may wait in the hosts' memory, of which nothing is known here
  double least_chance = 0.95;  // that it fits: plans with less are dropped
  bool every = false;          // on all devices: also what does not fit, and what a lighter recomputation makes useless
};

struct PricedPlan {
  UniformPlan plan;
  Estimate estimate;
};

struct Found {
  std::vector<PricedPlan> plans;      // that fit, by expected time, of equal ones the simplest first
  std::vector<PricedPlan> too_large;  // the nearest first: up to five, or, with `every`, all of them
  std::size_t enumerated = 0;         // plans whose memory was asked
};

// Who prices, for tests. Each must be a function of its arguments alone.
struct Pricing {
  std::function<Estimate(const Machine&, const ModelShape&, const UniformPlan&)> time;
  std::function<MemoryEstimate(const Machine&, const ModelShape&, const UniformPlan&)> memory;
};
[[nodiscard]] Pricing usual_pricing();

// REQUIRES: positive figures.
[[nodiscard]] Found find_plans(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                               const Pricing& pricing = usual_pricing());

// Whether the plan is one of those that are tried.
[[nodiscard]] bool in_space(const UniformPlan& plan, const Machine& machine, const ModelShape& shape,
                            const FindOptions& options);

// Which of two plans is found first: by time (to six digits), then the simpler one.
[[nodiscard]] bool goes_before(const PricedPlan& one, const PricedPlan& other);

// What people choose without a planner. Null where no plan that fits is of that kind.
// As little tensor, pipeline and context parallelism as fits, then as little recomputation, then the larger microbatch.
[[nodiscard]] const PricedPlan* least_split(const Found& found);
// Tensor parallelism over the node, then as few stages as fit.
[[nodiscard]] const PricedPlan* node_then_stages(const Found& found, const Machine& machine);

// How many of the first plans lie within the best one's interval: their expected steps are below its `most_s`, so that
// estimates cannot tell them apart.
[[nodiscard]] std::size_t not_told_apart(const Found& found);

// What would make a plan fit where none does: each was tried.
struct Remedy {
  enum class Kind : std::uint8_t { kOffload, kDevices, kGpu, kSequence } kind = Kind::kDevices;
  std::int32_t amount = 0;  // devices, or tokens of a sample
  std::string_view gpu;     // of kGpu
};
[[nodiscard]] std::vector<Remedy> remedies(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                                           const Pricing& pricing = usual_pricing());

}  // namespace trimtab::estimates
