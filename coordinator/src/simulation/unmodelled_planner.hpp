#pragma once

// Candidates without a cost model of time, to compare the tuner with: plans at random, and the neighbours of the
// incumbent, one knob at a time (stages, tensor-parallel degree, microbatch, recompute; cuts even). Both leave out what
// is predicted not to fit. Pure.

#include <cstdint>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tuning/planning.hpp"

namespace trimtab::coordinator {

// `incumbent_ms` is its measured step; 0 = not measured yet.
// Plans that somebody might start a job with, the likeliest first: the usual guess, even ones with full recompute, and
// a few hundred at random.
[[nodiscard]] std::vector<Plan> plain_plans(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                            std::uint64_t seed);
[[nodiscard]] SearchReply random_plans(const SearchTask& task, double incumbent_ms);
[[nodiscard]] SearchReply neighbouring_plans(const SearchTask& task, double incumbent_ms);

}  // namespace trimtab::coordinator
