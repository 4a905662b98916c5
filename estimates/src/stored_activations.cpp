#include "stored_activations.hpp"

#include <algorithm>

#include "framework_memory.hpp"
#include "stage_layers.hpp"

namespace trimtab::estimates {
namespace {

// Bytes a token, on one device.
struct TokenBytes {
  double norm_inputs = 0;   // two: the layer's input and what attention added
  double norm_outputs = 0;  // two: inputs of the first products
  double masks = 0;         // of the two dropouts between blocks
  double queries = 0, keys = 0, values = 0;
  double context = 0;  // attention's output: the input of its last product
  double scores = 0;   // of attention that is not fused: softmax and its dropout
  double gate_up = 0;  // the first product's output in the mlp
  double silu = 0;     // of the gate, where the product with it is an operator of its own
  double product = 0;  // the mlp's last product's input
  [[nodiscard]] double sum() const {
    return norm_inputs + norm_outputs + masks + queries + keys + values + context + scores + gate_up + silu + product;
  }
};

TokenBytes token_bytes(const ModelShape& shape, const UniformPlan& plan) {
  const FrameworkMemory framework = framework_memory(plan);
  const double whole = plan.sequence_parallel ? plan.tensor : 1;
  const double split = plan.tensor;
  const double width = static_cast<double>(shape.heads) * shape.head_dim;
  const double kv = static_cast<double>(framework.expands_kv ? shape.heads : shape.kv_heads) * shape.head_dim;
  const bool dropout = framework.dropout && !shape.rms;
  TokenBytes bytes;
  bytes.norm_inputs = 4.0 * shape.hidden / whole;
  bytes.norm_outputs = framework.norm_outputs_kept ? 4.0 * shape.hidden / whole : 0;
  bytes.masks = dropout ? 2.0 * shape.hidden / whole : 0;
  bytes.queries = 2 * width / split;
  bytes.keys = bytes.values = 2 * kv / split;
  bytes.context = 2 * width / split;
  if (!plan.fused_attention) {
    bytes.scores = (dropout ? 5.0 : 2.0) * shape.heads * shape.sequence / plan.context / split;
  }
  bytes.gate_up = (shape.gated ? 4.0 : 2.0) * shape.ffn / split;
  bytes.silu = shape.gated && framework.activation_product > 1 ? 2.0 * shape.ffn / split : 0;
  bytes.product = framework.products_kept ? 2.0 * shape.ffn / split : 0;
  if (framework.float8_inputs) {
    bytes.norm_outputs /= 2;
    bytes.product /= 2;
    bytes.context += width / split;  // the kernel of attention keeps its own
  }
  return bytes;
}

// PyTorch's checkpoint by operator keeps attention's output and every second matrix product of the layer: of
// query, key, value, output, gate, up, down the first, third, fifth and seventh (torchtitan, activation checkpointing).
double half_of_products(const ModelShape& shape, const UniformPlan& plan, const TokenBytes& bytes) {
  const double whole = plan.sequence_parallel ? plan.tensor : 1;
  const double layer_input = bytes.norm_inputs / 2;
  if (framework_memory(plan).projections_alone) return layer_input + bytes.queries + bytes.keys + bytes.values;
  const double attention = bytes.context + 2.0 * shape.heads * shape.head_dim / plan.tensor +
                           2.0 * shape.kv_heads * shape.head_dim / plan.tensor;
  return layer_input + attention + 2.0 * shape.ffn / plan.tensor + 2.0 * shape.hidden / whole;
}

double kept_bytes(const ModelShape& shape, const UniformPlan& plan, const TokenBytes& bytes) {
  switch (plan.recomputed) {
    case Recomputed::kNothing:
      return bytes.sum();
    case Recomputed::kAttentionCore:
      return bytes.sum() - bytes.scores;
    case Recomputed::kActivations:
      return bytes.sum() - bytes.norm_outputs - bytes.silu - bytes.product;
    case Recomputed::kHalfOfProducts:
      return std::min(bytes.sum(), half_of_products(shape, plan, bytes));
    case Recomputed::kLayer:
      return bytes.norm_inputs / 2;
  }
  return bytes.sum();
}

// Gradients of the mlp's widest tensors, and inputs that sequence parallelism gathers again.
double backward_bytes(const ModelShape& shape, const UniformPlan& plan) {
  const double mlp = (shape.gated ? 6.0 : 4.0) * shape.ffn / plan.tensor;
  const double gathered = plan.sequence_parallel && plan.tensor > 1 ? 4.0 * shape.hidden : 2.0 * shape.hidden;
  return mlp + gathered;
}

}  // namespace

double device_tokens(const ModelShape& shape, const UniformPlan& plan) {
  return static_cast<double>(plan.microbatch) * shape.sequence / plan.context;
}

LayerActivations layer_activations(const ModelShape& shape, const UniformPlan& plan) {
  const TokenBytes bytes = token_bytes(shape, plan);
  const double tokens = device_tokens(shape, plan);
  const double share = plan.recomputed == Recomputed::kNothing ? 0 : plan.recomputed_share;
  LayerActivations layer;
  layer.whole = tokens * bytes.sum();
  layer.kept = share * tokens * kept_bytes(shape, plan, bytes) + (1 - share) * layer.whole;
  layer.input = tokens * bytes.norm_inputs / 2;
  layer.hidden = layer.input / 2;
  layer.backward = tokens * backward_bytes(shape, plan);
  if (plan.tensor > 1) layer.row_output = tokens * 2.0 * shape.hidden;
  return layer;
}

double head_activations(const ModelShape& shape, const UniformPlan& plan) {
  const FrameworkMemory framework = framework_memory(plan);
  const double tokens = device_tokens(shape, plan);
  const double whole = plan.sequence_parallel ? plan.tensor : 1;
  const double table = padded_vocabulary(shape, plan) / plan.tensor;
  const double norm = tokens * 4.0 * shape.hidden / whole;
  const double forward = norm + tokens * table * framework.logit_forward_bytes;
  const double loss = norm + tokens * table * framework.logit_backward_bytes;
  const double product = norm + tokens * (2 * table + 4.0 * shape.hidden) + 2 * table * shape.hidden;
  return std::max({forward, loss, product});
}

}  // namespace trimtab::estimates
