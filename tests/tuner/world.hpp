#pragma once

// A small world to price plans in: a model, a cluster and the costs of a hidden ground truth, hand-made or random.

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner::test {

// How many of a test's random worlds are tried: all; a tenth under a sanitizer, which takes ten times as long for each
// and looks for what any of them shows. `at_least`: of what is rare among them, how often it must have been met; of a
// tenth it may never be, so that only builds without a sanitizer demand it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
[[nodiscard]] constexpr int tried(int worlds) {
  return (worlds + 9) / 10;
}
[[nodiscard]] constexpr int at_least(int) {
  return 0;
}
#else
[[nodiscard]] constexpr int tried(int worlds) {
  return worlds;
}
[[nodiscard]] constexpr int at_least(int met) {
  return met;
}
#endif

struct World {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;

  [[nodiscard]] CostTable table(bool allow_estimates = false) const;
};

// What one operator costs, linear in samples: value = fixed + each * samples.
struct OperatorTruth {
  std::string cost_key;
  std::int64_t forward_ns = 1000000;  // each sample
  std::int64_t forward_fixed_ns = 0;
  std::int64_t backward_ns = 2000000;
  std::int64_t backward_fixed_ns = 0;
  std::int64_t stored_bytes = 1000;
  std::int64_t working_bytes = 0;
  std::int64_t optimizer_ns = 0;
  Bytes parameter_bytes = 0;
  Bytes output_bytes = 0;
};

[[nodiscard]] Cost exact_cost(CostKey key, std::int64_t value);
// As the database has it, with a source in its own words.
[[nodiscard]] Cost cost_from(const char* source, const CostKey& key, const Statistics& statistics);
inline constexpr const char* kBenchmarkAlone = "benchmark alone host-clock";
inline constexpr const char* kTrainingAlone = "training alone host-clock";
[[nodiscard]] CostKey operator_key(CostKind kind, const std::string& cost_key, std::int32_t samples);
[[nodiscard]] CostKey link_key(CostKind kind, std::int64_t bytes, std::int32_t group_size = 0);

// Every operator measured at `samples`; no communication costs, no process memory (0 bytes, measured).
[[nodiscard]] World make_world(const std::vector<OperatorTruth>& operators, std::int32_t devices,
                               std::int32_t global_batch, const std::vector<std::int32_t>& samples);
// time = latency_ns + ns_per_kilobyte * bytes / 1000 for transfers and all-reduces of every group size.
void add_links(World& world, std::int64_t latency_ns, std::int64_t ns_per_kilobyte);

struct RandomWorldOptions {
  std::int32_t operators_max = 8;
  std::int32_t devices_max = 4;
  std::int32_t operators_min = 2;
};
// Random operators (some equal), links, overlap slowdowns and a memory limit between hopeless and generous.
[[nodiscard]] World random_world(Random& random, const RandomWorldOptions& options = {});

// Gives the model layers of one to `longest` operators, some of whose outputs no backward pass reads, and parameters
// that several operators share: what a stage stores no longer adds up over its operators.
void join_layers(Random& random, std::int64_t longest, Model& model);

// Stages given by their ends and device counts; every replica data-parallel; recompute by stage.
[[nodiscard]] Plan make_plan(const Model& model, std::int32_t microbatch, const std::vector<std::int32_t>& ends,
                             const std::vector<std::int32_t>& devices,
                             const std::vector<std::vector<Range>>& recompute = {});

}  // namespace trimtab::tuner::test
