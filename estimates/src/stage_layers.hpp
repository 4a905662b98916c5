#pragma once

// Which layers and parameters a pipeline's stage holds. Pure functions.

#include <cstdint>

#include "estimates/model_shape.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

// nanotron cuts stages by the cost of their products, the head's counted, and gives the layer that crosses a limit to
// the stage before it (nanotron/models/base.py, build_model). The others cut equal numbers of layers. Where these do
// not divide, the embedding and the head count as a layer each if that divides, else the first stages hold what is
// left.
[[nodiscard]] std::int32_t stage_layers(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage);

// Parameters on one device of the stage, with the padding of the vocabulary that the framework makes. The last stage
// holds a copy of tied embeddings, too.
[[nodiscard]] double stage_parameters(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage);
[[nodiscard]] double device_layer_parameters(const ModelShape& shape, const UniformPlan& plan);
[[nodiscard]] double padded_vocabulary(const ModelShape& shape, const UniformPlan& plan);

// Devices that share one copy of what is sharded.
[[nodiscard]] double optimizer_shards(const UniformPlan& plan);

// Microbatches under way on a stage when it holds most, as a multiple of all its layers: 1F1B holds one for each stage
// that follows and its own, the interleaved schedule what Megatron's warmup makes of it
// (megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches).
[[nodiscard]] double microbatches_under_way(const UniformPlan& plan, std::int32_t stage);

}  // namespace trimtab::estimates
