#pragma once

// Plans without a cost model of time. Candidates to compare the tuner with: plans at random, the neighbours of the
// incumbent, one knob at a time (stages, tensor-parallel degree, microbatch, recompute; cuts even), and lists that are
// tried from front to back. All leave out what is predicted not to fit. And the plan that a simulated job begins with.
// Pure.

#include "simulation/ground_truth.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

// "random"; "hill-climb"; "grid": the next of a grid in the order of DeepSpeed's autotuner, which is replicas alone,
// sharded at one level after the other, and of each the counts of samples upwards. It does not touch recompute: that is
// the initial plan's. "grid-fast": of each level only the least, the most that fits and one between, and none where
// less fits than at the level before. "sweep": the next of all plans of few words, which is stages cut evenly, one
// split and level of sharding and all or nothing recomputed, with every count of samples.
[[nodiscard]] std::vector<std::string_view> unmodelled_planners();
// `incumbent_ms` is its measured step; 0 = not measured yet. REQUIRES: one of unmodelled_planners().
[[nodiscard]] SearchReply unmodelled_plans(std::string_view planner, const SearchTask& task, double incumbent_ms);

// Plans that somebody might start a job with, the likeliest first: the usual guess, even ones with full recompute, and
// a few hundred at random.
[[nodiscard]] std::vector<Plan> plain_plans(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                            std::uint64_t seed);

// A plan.json: the job's own where it names one. A job that is to be tuned runs, so it truly fits: what somebody would
// have written down, else the plain result of trying until one launch lived. Fails where no plan of the job's knobs is
// found that truly fits, with the reason of the search that knew all memory.
[[nodiscard]] Result<std::string> initial_plan(const SimulationInput& input, GroundTruth& truth);

}  // namespace trimtab::coordinator
