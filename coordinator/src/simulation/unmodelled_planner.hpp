#pragma once

// Candidates without a cost model of time, to compare the tuner with: plans at random, the neighbours of the incumbent,
// one knob at a time (stages, tensor-parallel degree, microbatch, recompute; cuts even), and lists that are tried from
// front to back. All leave out what is predicted not to fit. Pure.

#include <cstdint>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

// `incumbent_ms` is its measured step; 0 = not measured yet.
// Plans that somebody might start a job with, the likeliest first: the usual guess, even ones with full recompute, and
// a few hundred at random.
[[nodiscard]] std::vector<Plan> plain_plans(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                            std::uint64_t seed);
[[nodiscard]] SearchReply random_plans(const SearchTask& task, double incumbent_ms);
[[nodiscard]] SearchReply neighbouring_plans(const SearchTask& task, double incumbent_ms);
// The next of a grid in the order of DeepSpeed's autotuner: replicas alone, sharded at one level after the other, and
// of each the counts of samples upwards. It does not touch recompute: that is the initial plan's. `fast`: of each level
// only the least, the most that fits and one between, and none where less fits than at the level before.
[[nodiscard]] SearchReply grid_plans(const SearchTask& task, double incumbent_ms, bool fast);
// The next of all plans of few words: stages cut evenly, one split and level of sharding and all or nothing recomputed,
// with every count of samples.
[[nodiscard]] SearchReply swept_plans(const SearchTask& task, double incumbent_ms);

}  // namespace trimtab::coordinator
