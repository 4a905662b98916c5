#include "stage_layers.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework_memory.hpp"

namespace trimtab::estimates {
namespace {

double attention_width(const ModelShape& shape) {
  return static_cast<double>(shape.heads) * shape.head_dim;
}
double kv_width(const ModelShape& shape) {
  return static_cast<double>(shape.kv_heads) * shape.head_dim;
}

double matrix_parameters(const ModelShape& shape) {
  const double hidden = shape.hidden;
  const double attention = hidden * (2 * attention_width(shape) + 2 * kv_width(shape));
  return attention + (shape.gated ? 3.0 : 2.0) * hidden * shape.ffn;
}

std::vector<std::int32_t> layers_by_cost(const ModelShape& shape, std::int32_t stages) {
  const double layer = matrix_parameters(shape);
  const double total = shape.layers * layer + static_cast<double>(shape.vocabulary) * shape.hidden;
  std::vector<std::int32_t> layers(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  for (std::int32_t index = 1; index <= shape.layers; ++index) {
    ++layers[stage];
    const double limit = total * (static_cast<double>(stage) + 1) / stages;
    if (index * layer > limit && stage + 1 < layers.size()) ++stage;
  }
  return layers;
}

}  // namespace

std::int32_t stage_layers(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage) {
  if (framework_memory(plan).head_counts && plan.stages > 1) {
    return layers_by_cost(shape, plan.stages)[static_cast<std::size_t>(stage)];
  }
  if (shape.layers % plan.stages != 0 && (shape.layers + 2) % plan.stages == 0) {
    return (shape.layers + 2) / plan.stages - (stage == 0 ? 1 : 0) - (stage + 1 == plan.stages ? 1 : 0);
  }
  return shape.layers / plan.stages + (stage < shape.layers % plan.stages ? 1 : 0);
}

double padded_vocabulary(const ModelShape& shape, const UniformPlan& plan) {
  const double multiple = framework_memory(plan).pads_vocabulary ? 128.0 * plan.tensor : 1.0;
  return std::ceil(shape.vocabulary / multiple) * multiple;
}

double device_layer_parameters(const ModelShape& shape, const UniformPlan& plan) {
  const double norms = (shape.rms ? 2.0 : 4.0) * shape.hidden;
  double split_biases = 0;
  double whole_biases = 0;
  if (shape.bias) {
    split_biases = attention_width(shape) + 2 * kv_width(shape) + (shape.gated ? 2.0 : 1.0) * shape.ffn;
    whole_biases = 2.0 * shape.hidden;
  }
  return (matrix_parameters(shape) + split_biases) / plan.tensor + norms + whole_biases;
}

double stage_parameters(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage) {
  const double table = padded_vocabulary(shape, plan) * shape.hidden / plan.tensor;
  double count = stage_layers(shape, plan, stage) * device_layer_parameters(shape, plan);
  const bool last = stage + 1 == plan.stages;
  if (stage == 0) count += table + static_cast<double>(shape.positions) * shape.hidden;
  if (last) count += (shape.rms ? 1.0 : 2.0) * shape.hidden;
  if (last && (!shape.tied || plan.stages > 1)) count += table;
  return count;
}

double optimizer_shards(const UniformPlan& plan) {
  if (plan.sharded_over > 0) return plan.sharded_over;
  return framework_memory(plan).optimizer_over_context ? plan.replicas * plan.context : plan.replicas;
}

double microbatches_under_way(const UniformPlan& plan, std::int32_t stage) {
  const std::int32_t after = plan.stages - stage - 1;
  if (plan.chunks == 1) return std::min(plan.microbatches(), after + 1);
  const std::int32_t warmup = 2 * after + (plan.chunks - 1) * plan.stages;
  const std::int32_t all = plan.microbatches() * plan.chunks;
  return static_cast<double>(std::min(warmup + 1, all)) / plan.chunks;
}

}  // namespace trimtab::estimates
