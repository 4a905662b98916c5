#pragma once

// Galvatron's published rows as costs. What one commit published of one cluster's shape is a profile with a fingerprint
// of its own: the same model was timed differently before and after its code changed.
//
// Galvatron publishes a line where others publish points: a time per sample, a time per byte. Such a line is stored as
// its two ends. The rows of the models that it searched are completed by its own rules, so that every cost model can
// price them: a backward pass takes two forwards; tensor parallelism shares the time and adds its all-reduces; an
// all-gather or a reduce-scatter is half an all-reduce.

#include "published/galvatron/tables.hpp"

namespace trimtab::published {

// A layer that a searched model is made of.
struct GalvatronLayer {
  std::string cost_key;  // "bert-huge/enc"
  std::string kind;      // "encoder_layer" or "decoder_layer"
  std::string dtype;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  double ms_per_sample = 0;
  std::map<std::int32_t, double> ms_at;  // of so many samples together; empty: a line by ms_per_sample
  double parameter_mib = 0;              // as float32
  GalvatronActivations activation_mib{};
  double recomputed_mib = 0;
  std::int32_t source = 1;
  std::string commit;  // of its source
};

// Those of the paper's models and of the models that the second version came with.
[[nodiscard]] Result<std::vector<GalvatronLayer>> galvatron_layers(const GalvatronTables& tables);

struct GalvatronProfile {
  std::string repository;
  std::string commit;
  GalvatronShape shape;
  bool has_links = false;  // group sizes were measured
  PublishedCosts published;
};

[[nodiscard]] Result<std::vector<GalvatronProfile>> galvatron_costs(const GalvatronTables& tables,
                                                                    const std::vector<GalvatronLayer>& layers);

// ms per MiB that a rank sends in an all-reduce of so many neighbours of one stage on the whole cluster; 0 where nobody
// measured it.
[[nodiscard]] double neighbours_ms_per_mib(const GalvatronTables& tables, const std::string& commit,
                                           const GalvatronShape& shape, std::int32_t ranks);

// As operators of a model document. `index`: of the layer in its model.
[[nodiscard]] Operator galvatron_operator(const GalvatronLayer& layer, std::int32_t index);

// `layers` and a model beside it with what its layers stand between, for cost models that know operators alone: an
// embedding and a head with the published states and activations. REQUIRES: at least one layer, and model.galvatron.
void add_galvatron_models(Model layers, Published& out);

// What was measured of links as a cluster document. `memory`: of each device.
[[nodiscard]] Cluster galvatron_cluster(const GalvatronTables& tables, const GalvatronProfile& profile, Bytes memory);

// Models and clusters of Galvatron's published settings, and remarks: those of the paper's Tables II and III, and the
// models that the second version came with on the clusters that it measured. `layers` and `profiles` are those of the
// same tables.
[[nodiscard]] Status add_galvatron_documents(const GalvatronTables& tables, const std::vector<GalvatronLayer>& layers,
                                             const std::vector<GalvatronProfile>& profiles, Published& out);

}  // namespace trimtab::published
