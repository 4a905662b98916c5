#pragma once

// Galvatron's published profiles and what its own programs answered: plans, their predicted times, how long they
// searched. Read from the directory `galvatron` under TRIMTAB_PEERS (../shared/peers beside the sources where that is
// not set), for tests and benchmarks; absent elsewhere.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "papers/galvatron_cost_model.hpp"
#include "schema/published.hpp"

namespace trimtab::tuner::galvatron::peer {

// Nothing where the profiles are not there; says so once on standard error. Fails the program where they are damaged.
[[nodiscard]] const Published* published();

// One search of the peer.
struct Answer {
  std::string version;  // "v1", "v2"
  std::string model;    // as documents name it: "bert-huge-32"
  std::int32_t nodes = 1;
  std::int32_t devices_per_node = 8;
  std::int32_t gib = 8;
  std::string options;     // "" or what its search left out: "disable_ckpt", "dp+tp"
  std::int32_t batch = 0;  // its best; 0 = nothing fitted
  std::int32_t microbatches = 1;
  double seconds = 0;                                  // predicted of an iteration
  double cpu_seconds = 0;                              // of its whole search
  std::vector<std::vector<std::string>> stages;        // runs of layers, "2-2*-2 x15"
  std::vector<std::int32_t> memory_mib;                // of each stage; empty where it did not say
  std::vector<std::pair<std::int32_t, double>> rates;  // samples/s by batch; 0 = nothing fitted

  [[nodiscard]] std::int32_t devices() const { return nodes * devices_per_node; }
  [[nodiscard]] std::string name() const;
};

[[nodiscard]] const std::vector<Answer>& answers();

// A pipeline of two or four stages whose partition the peer's formulas were searched over.
struct PartitionAnswer {
  std::string model;
  std::int32_t gib = 8;
  std::int32_t batch = 0;
  std::int32_t microbatches = 1;
  double even_seconds = 0;
  double best_seconds = 0;
  std::vector<std::vector<std::string>> even, best;
};

[[nodiscard]] const std::vector<PartitionAnswer>& partition_answers();

// A row of the paper's tables beside the peer's prediction.
struct Measurement {
  std::string model;
  std::int32_t devices = 8;
  std::int32_t gib = 8;
  double rate = 0;  // measured, samples/s
  std::int32_t batch = 0;
  double peer_rate = 0;  // predicted at the peer's own best batch
  std::int32_t peer_batch = 0;
};

[[nodiscard]] const std::vector<Measurement>& measurements();

// What the paper measured of another system on RTX TITANs: the whole batch at once on all devices. Or of Galvatron
// itself, with nothing but replicas and tensor-parallel ranks, or replicas and pipelines, to choose from.
enum class System { kReplicas, kSharded, kTensor, kReplicasAndTensor, kReplicasAndPipeline };
struct SystemMeasurement {
  System system = System::kReplicas;
  std::string model;
  std::int32_t devices = 8;
  std::int32_t gib = 8;
  double rate = 0;  // samples/s
  std::int32_t batch = 0;
};

// Those of other systems, of models whose layers were published; tensor parallelism inside of one node.
[[nodiscard]] const std::vector<SystemMeasurement>& system_measurements();
// Galvatron's own, limited.
[[nodiscard]] const std::vector<SystemMeasurement>& limited_measurements();

// How many rows the paper has of Galvatron itself, and for how many of them no plan can be priced: on other GPUs than
// the published profile is of; of models whose layers nobody published; chosen with recompute among the dimensions.
struct OwnRows {
  int measured = 0;
  int other_gpus = 0;
  int other_models = 0;
  int recompute = 0;
};
[[nodiscard]] OwnRows own_rows();

// The published model at another batch, the cluster with another limit, and their costs.
[[nodiscard]] Model model_of(const std::string& name, std::int32_t batch);
[[nodiscard]] Cluster cluster_of(const Model& model, std::int32_t nodes, std::int32_t devices_per_node,
                                 std::int32_t gib);
[[nodiscard]] const std::vector<Cost>& costs_of(const Cluster& cluster);
// By its name, "galvatron:v1", "native".
[[nodiscard]] std::unique_ptr<CostModel> cost_model_of(const std::string& name, const Model& model,
                                                       const Cluster& cluster, bool allow_estimates = false);

// The peer's notation as a plan; without recompute and strides where asked, for models that do not price them.
[[nodiscard]] Plan plan_of(const Model& model, std::int32_t devices,
                           const std::vector<std::vector<std::string>>& stages, std::int32_t microbatches,
                           bool shared_states);

}  // namespace trimtab::tuner::galvatron::peer
